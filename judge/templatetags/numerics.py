"""Numerics as people choose and read them."""

from __future__ import annotations

from django import template

from judge.evaluations.beside import GRADIENTS_HELP, gradients_text, numerics_text
from judge.values import Gradients, Precision

register = template.Library()


@register.simple_tag
def numerics() -> list[tuple[str, str]]:
    """`{% numerics as choices %}`: (value, what it means) of each."""
    return [(one.value, numerics_text(one)) for one in Precision]


@register.simple_tag
def gradients() -> list[tuple[str, str]]:
    """`{% gradients as choices %}`: (value, what it means) of each."""
    return [(one.value, gradients_text(one)) for one in Gradients]


@register.simple_tag
def gradients_help() -> str:
    """What asking for gradients does."""
    return str(GRADIENTS_HELP)
