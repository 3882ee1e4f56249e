"""How a cell of a picture's table is printed: a speedup with its evidence, a node as a link, the unknown as a word."""

from __future__ import annotations

from collections.abc import Iterable

from django import template
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from judge.evaluations.measures import Measure
from judge.templatetags.marks import BASES
from judge.templatetags.texts import shown
from judge.values import Basis
from search.pictures.values import Cell, NodeRef
from search.templatetags.measures import measure

register = template.Library()


@register.simple_tag
def cell(value: Cell, run_id: int) -> SafeString | str:
    """`{% cell value run.pk %}`."""
    if isinstance(value, Measure):
        return measure(value)
    if isinstance(value, NodeRef):
        return format_html('<a href="{}">{}</a>', reverse("node-detail", args=[run_id, value.number]), value.number)
    if isinstance(value, Basis):
        return str(BASES[value])
    if value is None:
        return format_html('<span class="none">{}</span>', "—")
    if isinstance(value, float):
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else shown(value)


@register.simple_tag
def node_link(run_id: int, number: int, text: str = "") -> SafeString:
    """`{% node_link run.pk 7 as link %}`: a link that the cockpit opens beside the tree."""
    address = reverse("node-detail", args=[run_id, number])
    return format_html('<a href="{}" data-node="{}">{}</a>', address, number, text or number)


@register.filter
def node_links(numbers: Iterable[int], run_id: int) -> SafeString:
    """Links to these nodes, with commas between."""
    return format_html_join(", ", "{}", ((node_link(run_id, number),) for number in numbers))


@register.filter
def numeric(value: Cell) -> bool:
    """Whether a cell is a plain number, to stand at the right."""
    return isinstance(value, int | float)
