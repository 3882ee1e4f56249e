"""The audit of operator acts, and the key that makes a repeated submit one act."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.core.models import AuditEntry

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser
    from django.forms import BaseForm
    from django_stubs_ext import StrOrPromise


# Audit rows written while one request is answered, for whoever offers to undo; None outside of requests.
written: ContextVar[list[int] | None] = ContextVar("written", default=None)


NOTHING = _("Nothing was changed: it was so already.")


def done_message(done: StrOrPromise) -> StrOrPromise:
    """What to tell the person: `done`, or `NOTHING` where the request wrote no audit row.

    An act that sets what holds already succeeds, and writes neither an audit row nor an event.
    """
    return NOTHING if written.get() == [] else done


class ActionRefused(Exception):
    """The act is not possible now. The message says why, for the person who asked.

    `status` is that of the HTTP answer. `see` is the label and address of a page that helps to decide: every page that
    shows the refusal has that link.
    """

    status: ClassVar[int] = 409

    def __init__(self, message: StrOrPromise, *, see: tuple[StrOrPromise, str] | None = None) -> None:
        super().__init__(message)
        self.see = see


class FieldsRefused(ActionRefused):
    """The same, where some fields of a form are to blame: `fields` holds a sentence by the name of each."""

    status = 422

    def __init__(self, fields: Mapping[str, StrOrPromise], form: BaseForm | None = None) -> None:
        self.fields, self.form = {name: str(text) for name, text in fields.items()}, form
        super().__init__(" ".join(self.fields.values()))


def action_done(*, key: str | None, verb: str) -> AuditEntry | None:
    """The first act under this key. Raises ActionRefused when the key was used for another kind of act."""
    if not key:
        return None
    action = AuditEntry.objects.filter(key=key).first()
    if action is not None and action.verb != verb:
        raise ActionRefused(gettext("This form was already used for something else. Reload the page and try again."))
    return action


def action_on(
    *,
    verb: str,
    on: tuple[str, int],
    user: AbstractBaseUser | None,
    key: str | None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> AuditEntry:
    """Write the audit row of an act on (kind of row, its id), in the caller's transaction."""
    action = AuditEntry.objects.create(
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
