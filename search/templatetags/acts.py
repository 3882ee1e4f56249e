"""What a form that acts needs beside its fields."""

from __future__ import annotations

import secrets
from typing import Any

from django import template

register = template.Library()


@register.simple_tag
def act_key() -> str:
    """A fresh key: the same form sent twice is one act."""
    return secrets.token_urlsafe(16)


@register.filter
def undo_of(message: Any) -> dict[str, str] | None:
    """The act that a message offers to undo, and the label of its button; None for other messages."""
    kind, _, rest = str(getattr(message, "extra_tags", "") or "").partition(":")
    number, _, label = rest.partition(":")
    return {"id": number, "label": label} if kind == "undo" and number.isdecimal() else None
