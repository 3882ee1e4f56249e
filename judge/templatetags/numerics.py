"""Numerics as people choose and read them."""

from __future__ import annotations

from django import template

from judge.evaluations.beside import numerics_text
from judge.values import Precision

register = template.Library()


@register.simple_tag
def numerics() -> list[tuple[str, str]]:
    """`{% numerics as choices %}`: (value, what it means) of each."""
    return [(one.value, numerics_text(one)) for one in Precision]
