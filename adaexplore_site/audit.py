"""The audit of operator acts, and the key that makes a repeated submit one act."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from adaexplore_site.models import Action

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


# Audit rows written while one request is answered, for whoever offers to undo; None outside of requests.
written: ContextVar[list[int] | None] = ContextVar("written", default=None)


class ActionRefused(Exception):
    """The act is not possible now. The message says why, for the person who asked."""


class FieldsRefused(ActionRefused):
    """The same, where some fields of a form are to blame: `fields` holds a sentence by the name of each."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__(" ".join(fields.values()))
        self.fields = dict(fields)


def action_done(*, key: str | None, verb: str) -> Action | None:
    """The first act under this key. Raises ActionRefused when the key was used for another kind of act."""
    if not key:
        return None
    action = Action.objects.filter(key=key).first()
    if action is not None and action.verb != verb:
        raise ActionRefused("This form was already used for something else. Reload the page and try again.")
    return action


def action_on(
    *,
    verb: str,
    on: tuple[str, int],
    user: AbstractBaseUser | None,
    key: str | None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> Action:
    """Write the audit row of an act on (kind of row, its id), in the caller's transaction."""
    action = Action.objects.create(
        actor=user,  # type: ignore[misc]
        verb=verb,
        object_type=on[0],
        object_id=str(on[1]),
        before=before or {},
        after=after or {},
        key=key or None,
        via=getattr(user, "via", ""),
    )
    if user is not None and (rows := written.get()) is not None:
        rows.append(action.pk)
    return action
