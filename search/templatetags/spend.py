"""Money and time on the page of spending."""

from __future__ import annotations

from decimal import Decimal

from django import template

from judge.templatetags.units import duration
from search.ledger import spending as values

register = template.Library()


@register.filter
def dollars(value: Decimal) -> str:
    """`$3.10`."""
    return values.dollars(value)


@register.filter
def from_ms(value: float) -> str:
    """A duration given in milliseconds: `2 min 10 s`."""
    return duration(value / 1e3)


@register.filter
def exactly(value: Decimal) -> str:
    """A price without the zeros that say nothing: `1.5`."""
    return f"{value.normalize():f}"
