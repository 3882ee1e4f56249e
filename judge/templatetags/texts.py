"""Names and titles that strangers chose, made safe to read: hidden and direction-changing characters become visible."""

from __future__ import annotations

from django import template

from judge.sources.highlighting import visible

register = template.Library()


@register.filter
def shown(text: object) -> str:
    """The text on one line, with invisible characters as escapes. Escaping for HTML is still the template's work."""
    return visible(str(text)).replace("\n", " ")


@register.filter
def shown_text(text: object) -> str:
    """The same for text of several lines."""
    return visible(str(text))
