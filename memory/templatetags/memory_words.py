"""Numbers of memory as words."""

from __future__ import annotations

from django import template

register = template.Library()


@register.filter
def points(share: float | None) -> str:
    """A difference of two shares in percentage points: "+12.3 points"."""
    return "not known" if share is None else f"{100 * share:+.1f} points".replace("-", "−")
