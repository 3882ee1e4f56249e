"""What the API takes for an action, by its form."""

from __future__ import annotations

from dataclasses import dataclass

from adaexplore_site.api.actions import body_of


@dataclass(frozen=True)
class Ask:
    """One field of a body."""

    name: str
    type: object
    needed: bool


def asked(name: str) -> list[Ask]:
    """The fields of an action."""
    fields = body_of(name).model_fields
    return [Ask(part, field.annotation, field.is_required()) for part, field in fields.items()]
