"""States as a shape, a word and a colour. The shapes are inline SVG, so they follow the text's size and colour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from judge.evaluations.measures import verdict_look

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

register = template.Library()

_SOLID = {
    "correct": "M6 1a5 5 0 1 1 0 10A5 5 0 1 1 6 1z",
    "best": "M6 0l6 6-6 6-6-6z",
    "compile-error": "M6 .8 11.6 11H.4z",
    "slower": "M1.5 1.5h9v9h-9z",
    "stopped": "M1.5 1.5h9v9h-9z",
    "paused": "M2 1h3v10H2zM7 1h3v10H7z",
    "pending": "M6 4.2a1.8 1.8 0 1 1 0 3.6 1.8 1.8 0 1 1 0-3.6z",
    "pinned": "M6 .5l1.7 3.5 3.8.5-2.8 2.7.7 3.8L6 9.2 2.6 11l.7-3.8L.5 4.5 4.3 4z",
    "person": "M6 .8a2.5 2.5 0 1 1 0 5 2.5 2.5 0 1 1 0-5zM1.4 11.2a4.6 4.6 0 0 1 9.2 0z",
    "waiting": "M1.6 4.6h2v2.8h-2zM5 4.6h2v2.8H5zM8.4 4.6h2v2.8h-2z",
}
_LINES = {
    "running": "M6 1.2a4.8 4.8 0 1 1 0 9.6 4.8 4.8 0 1 1 0-9.6z",
    "wrong": "M2 2l8 8M10 2l-8 8",
    "ok": "M1.5 6.5 4.8 10 10.8 2.2",
    "warned": "M6 1.6 11 10.6H1zM6 5v2.4",
    "skipped": "M2 6h8",
    "tied": "M6 1l5 5-5 5-5-5z",
    "at-bound": "M11 6H2M5.5 2.5 2 6l3.5 3.5",
    "pruned": "M6 1.2a4.8 4.8 0 1 1 0 9.6 4.8 4.8 0 1 1 0-9.6zM2.4 9.6l7.2-7.2",
    "suspect": "M3.4 3.6a2.6 2.6 0 1 1 4 2.3C6.4 6.5 6 7 6 8M6 10.8v.2",
    "root": "M6 3.4a2.6 2.6 0 1 1 0 5.2 2.6 2.6 0 1 1 0-5.2z",
}
_SAME = {
    "finished": "ok",
    "admitted": "ok",
    "success": "ok",
    "failed": "wrong",
    "refused": "wrong",
    "degenerate": "warned",
    "proposing": "running",
    "judging": "running",
    "queued": "waiting",
    "stopping": "waiting",
    "cancelled": "pruned",
    "active": "ok",
    "draining": "waiting",
    "quarantined": "suspect",
}


# What states are called. Others are shown by their own name.
LABELS = {
    "active": _("active"),
    "admitted": _("admitted"),
    "cancelled": _("cancelled"),
    "degenerate": _("degenerate"),
    "draining": _("draining"),
    "failed": _("failed"),
    "finished": _("finished"),
    "flaky": _("flaky"),
    "judging": _("judging"),
    "ok": _("ok"),
    "paused": _("paused"),
    "pending": _("pending"),
    "pinned": _("pinned"),
    "proposing": _("proposing"),
    "pruned": _("pruned"),
    "quarantined": _("quarantined"),
    "queued": _("queued"),
    "refused": _("refused"),
    "running": _("running"),
    "skipped": _("skipped"),
    "stopped": _("stopped"),
    "stopping": _("stopping"),
    "success": _("success"),
    "warned": _("warned"),
}
BASES = {
    "measured": _("measured"),
    "modelled": _("MODELLED"),
    "reported": _("reported"),
    "simulated": _("SIMULATED"),
}


@register.filter
def state_label(name: StrOrPromise) -> StrOrPromise:
    """What a state is called."""
    return LABELS.get(str(name), name)


@register.simple_tag
def mark(name: str) -> SafeString:
    """The shape of a state as an SVG without a label; the word must stand beside it."""
    style, path = shape_of(name)
    return format_html(
        '<svg class="{}" viewBox="0 0 12 12" aria-hidden="true"><path d="{}"/></svg>', style, mark_safe(path)
    )


def shape_of(name: str) -> tuple[str, str]:
    """(CSS classes, path) of a state."""
    shape = _SAME.get(name, name)
    if shape in _SOLID:
        return "mark", _SOLID[shape]
    return "mark mark-line", _LINES.get(shape, _LINES["suspect"])


@register.simple_tag
def basis(value: Any, title: str = "") -> SafeString:
    """`{% basis device.basis %}`: where a number comes from, the one way in which pages say it. Takes a Basis, its
    value or `simulated`; nothing for a device without times."""
    name = str(getattr(value, "value", value) or "")
    if not name:
        return SafeString("")
    said = format_html(' title="{}"', title) if title else ""
    return format_html('<span class="basis basis-{}"{}>{}</span>', name, said, BASES.get(name, name))


@register.simple_tag
def mark_symbols(*names: str) -> SafeString:
    """The same shapes around (0, 0), for `<use href="#spot-NAME">` in pictures that hold hundreds of them."""
    rows = ((name, *shape_of(name)) for name in names)
    return format_html_join(
        "",
        '<g id="spot-{}" transform="translate(-5.4 -5.4) scale(.9)"><path class="{}" d="{}"/></g>',
        ((name, style.replace("mark", "spot"), path) for name, style, path in rows),
    )


@register.simple_tag
def state(name: str, label: StrOrPromise = "") -> SafeString:
    """`{% state "running" %}`: shape, word and colour class `is-<name>`."""
    return format_html(
        '<span class="state is-{}">{} <span>{}</span></span>', name, mark(name), state_label(label or name)
    )


@register.simple_tag
def verdict(evaluation: Any) -> SafeString:
    """An evaluation's verdict as text, with its shape and colour."""
    style = verdict_look(evaluation.verdict, evaluation.speedup)
    labels = {"correct": gettext("correct"), "slower": gettext("correct, slower than eager")}
    return state(style, labels.get(style) or format_html("<bdi>{}</bdi>", str(evaluation.verdict).replace("_", " ")))


@register.simple_tag
def layer_state(found: str) -> SafeString:
    """The state of a sandbox layer: `active`, `active (abi 7)`, `failed (the reason)`, `unavailable`, `off`."""
    styles = {"active": "ok", "unavailable": "warned", "partial": "warned", "off": "skipped", "failed": "failed"}
    return state(styles.get(str(found).partition(" ")[0], "suspect"), format_html("<bdi>{}</bdi>", str(found)[:80]))


@register.simple_tag
def audit(evaluation: Any) -> SafeString:
    """Whether a speedup has been audited: `audited`, `audit failed`, `not audited`, or nothing without a speedup; a
    kernel in doubt says so instead."""
    if doubt := getattr(evaluation, "doubt", ""):
        return state("suspect", doubt)
    if evaluation is None or (evaluation.speedup is None and not evaluation.audit):
        return SafeString("")
    if evaluation.elsewhere:
        reported = evaluation.basis == "reported"
        return state(
            "skipped",
            gettext("reported, not audited here") if reported else gettext("judged elsewhere, not audited here"),
        )
    found = {"passed": ("ok", gettext("audited")), "failed": ("failed", gettext("audit failed"))}
    return state(*found.get(evaluation.audit, ("pending", gettext("not audited"))))


@register.simple_tag
def degenerate(problem: Any, label: StrOrPromise = "") -> SafeString:
    """The flag of a degenerate problem, for every place that shows a search or a speedup of it; else nothing."""
    flagged = getattr(problem, "state", "") == "degenerate"
    return state("degenerate", label or gettext("degenerate problem")) if flagged else SafeString("")
