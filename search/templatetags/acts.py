"""What the form of an action needs beside its fields."""

from __future__ import annotations

import secrets
from typing import Any

from django import template

from adaexplore_site.actions import registry
from adaexplore_site.core.models import AuditEntry

register = template.Library()


@register.simple_tag
def act_key() -> str:
    """A fresh key: the same form sent twice is one action."""
    return secrets.token_urlsafe(16)


@register.simple_tag
def removed_lately(kind: str, most: int = 10) -> list[AuditEntry]:
    """`{% removed_lately "run" as removed %}`: the newest actions that removed objects of this kind."""
    return list(registry.removals(registry.kind_of(kind))[:most])


@register.filter
def undo_of(message: Any) -> dict[str, str] | None:
    """The action that a message offers to undo, and the label of its button; None for other messages."""
    kind, _, rest = str(getattr(message, "extra_tags", "") or "").partition(":")
    number, _, label = rest.partition(":")
    return {"id": number, "label": label} if kind == "undo" and number.isdecimal() else None
