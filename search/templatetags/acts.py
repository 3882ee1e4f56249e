"""What a form that acts needs beside its fields."""

from __future__ import annotations

import secrets

from django import template

register = template.Library()


@register.simple_tag
def act_key() -> str:
    """A fresh key: the same form sent twice is one act."""
    return secrets.token_urlsafe(16)
