"""The only tags that print a speedup or a state: never a bare number, never colour alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from judge.evaluations.measures import Measure
from search.lab.results import SAME
from search.reports.values import Figure

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

register = template.Library()


@register.simple_tag
def metric(name: str, value: Any, of: Any = "") -> SafeString:
    """`{% metric "search.told" sum.told %}`: attributes that name a number's field in the API, with its exact value.

    `of` says which row of a list it stands in. Nothing for an unknown number. A test compares both by it.
    """
    if value is None:
        return SafeString("")
    row = format_html(' data-of="{}"', of) if of != "" else ""
    return format_html(' data-metric="{}" data-value="{}"{}', name, str(value), row)


@register.simple_tag
def measure(row: Any, empty: str = "—", metric: str = "speedup", of: Any = "") -> SafeString:
    """`{% measure evaluation %}` -> `2.31× [2.24–2.38] n=48 measured`. Takes anything `Measure.of` takes, or None.

    Where another baseline is faster than eager, the speedup over it stands beside: no page shows one without the other.
    `metric` and `of` name its field in the API, as the tag `metric` does.
    """
    value = Measure.of(row)
    if value is None:
        return format_html('<span class="measure measure-more">{}</span>', empty)
    return format_html(
        '<span class="measure"{}{}><strong>{}</strong>'
        ' <span class="measure-more">{}</span> <span class="basis basis-{}">{}</span>{}</span>',
        named(metric, value.value, of),
        format_html(' title="{}"', value) if value.error is not None else "",
        value.number,
        value.evidence,
        value.basis.value,
        value.source,
        format_html_join("", ' <span class="measure-beside">{}</span>', ((text,) for text in value.beside)),
    )


named = metric  # the tag, where an argument has its name


@register.simple_tag
def figure(value: Figure) -> SafeString:
    """One aggregate: `60 % [20–100] n=5 measured`; n counts problems."""
    return format_html(
        '<span class="measure" data-metric="{}"><strong>{}</strong>'
        ' <span class="measure-more">{} n={}</span> <span class="basis basis-{}">{}</span></span>',
        value.metric,
        value.number,
        value.interval,
        value.n,
        value.basis.value,
        value.source,
    )


@register.simple_tag
def simulated(found: Any, signed: bool = False, empty: str = "—") -> SafeString:
    """`{% simulated estimate %}` -> `0.769 [0.751 … 0.788] n=200 SIMULATED`; a difference is `signed`. Takes an
    estimate of the policy laboratory, or None."""
    if found is None:
        return format_html('<span class="measure measure-more">{}</span>', empty)
    value, low, high = (
        f"{figure:+.3f}" if signed else f"{figure:.3f}" for figure in (found.value, found.low, found.high)
    )
    return format_html(
        '<span class="measure"><strong>{}</strong> <span class="measure-more">[{} … {}] n={}</span>'
        ' <span class="basis basis-simulated">{}</span></span>',
        value, low, high, found.n, _("SIMULATED"),
    )  # fmt: skip


COMPARED = {"better": _("better"), "worse": _("worse"), SAME: _("not distinguishable")}


@register.filter
def compared(verdict: str) -> StrOrPromise:
    """The verdict on a difference, in words."""
    return COMPARED.get(verdict, verdict)


@register.filter
def measure_text(row: Any) -> str:
    """The same as plain text, for titles and labels; empty when there is no speedup."""
    value = Measure.of(row)
    return "" if value is None else "; ".join([str(value), *value.beside])
