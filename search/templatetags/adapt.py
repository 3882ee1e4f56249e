"""Prints shares and differences of an adapt run, never without their intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memory.adapt.effect import HARMS, HELPS, NOT_DECIDED, NOTHING_SHOWN, NOTHING_YET, Arm, Difference, Effect, Share

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

register = template.Library()
MOST_MARKS = 25
SIDES = {HELPS: _("above zero"), HARMS: _("below zero"), NOTHING_SHOWN: _("holds zero")}

VERDICTS = {
    HELPS: _("memory helps"),
    HARMS: _("memory harms"),
    NOTHING_SHOWN: _("no effect shown"),
    NOTHING_YET: _("nothing to compare yet"),
    NOT_DECIDED: _("not decided before its end"),
}


@register.simple_tag
def effect_verdict(found: Effect) -> StrOrPromise:
    """What the comparison says, in words."""
    return VERDICTS[found.verdict]


@register.simple_tag
def share(found: Share) -> SafeString:
    """ "54% [41–66] n=60"."""
    if found.value is None or found.low is None or found.high is None:
        return format_html('<span class="none">{}</span>', _("none yet"))
    return format_html(
        '<span class="adapt-figure"><strong>{}%</strong> [{}–{}] n={}</span>',
        round(100 * found.value),
        round(100 * found.low),
        round(100 * found.high),
        found.n,
    )


@register.simple_tag
def difference(found: Difference) -> SafeString:
    """ "+32.0 points [+18.1, +44.0] n=60", and on which side of zero its interval lies."""
    if found.value is None or found.low is None or found.high is None:
        return format_html('<span class="none">{}</span>', VERDICTS[found.verdict])
    points, low, high = (f"{100 * value:+.1f}" for value in (found.value, found.low, found.high))
    return format_html(
        '<span class="adapt-figure">{} <span class="eyebrow">{}</span></span>',
        format_html(gettext("<strong>{}</strong> points [{}, {}] n={}"), points, low, high, found.n),
        SIDES[found.verdict],
    )


@register.simple_tag
def attempts(arm: Arm) -> SafeString:
    """Passed of counted, with a mark for each of the first attempts."""
    if not arm.attempts:
        return format_html('<span class="none">{}</span>', "—")
    counted = [one for one in arm.attempts if one is not None]
    first = {True: gettext("first: passed"), False: gettext("first: failed"), None: gettext("first: not counted")}
    marks = "".join({True: "●", False: "○", None: "·"}[one] for one in arm.attempts[:MOST_MARKS])
    return format_html(
        '<span class="adapt-attempts" title="{}">{}/{} <span class="adapt-marks" aria-hidden="true">{}</span></span>',
        first[arm.attempts[0]],
        sum(counted),
        len(counted),
        marks,
    )
