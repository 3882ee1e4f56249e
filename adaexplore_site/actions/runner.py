"""The one way to do an action and to undo one: role, form, question, lock, version, idempotency key, transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from django import forms
from django.db import IntegrityError, transaction
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Action, Call, Question, Recorded, Result, irreversible, missing
from adaexplore_site.core.access import Role, require
from adaexplore_site.core.audit import ActionRefused, FieldsRefused, action_done, done_message
from adaexplore_site.core.models import AuditEntry

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class Outdated(ActionRefused):
    """The object has changed since the version that was named. `now` is what it is."""

    def __init__(self, message: str, now: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.now = dict(now)


class Unconfirmed(ActionRefused):
    """Nothing takes the action back, and the person has not said that they are sure."""

    def __init__(self, question: Question) -> None:
        super().__init__(f"{question.ask} {question.what}")
        self.question = question


@dataclass(frozen=True)
class Request:
    """What somebody asks for. `version` is that of the object as they read it; None when they name none."""

    action: Action
    where: Mapping[str, Any]
    data: QueryDict
    files: MultiValueDict[str, Any]
    version: int | None = None


@dataclass(frozen=True)
class Outcome:
    """What came of it. `entry` is None when nothing had to change, or while something is waited for."""

    target: Any
    result: Result
    entry: AuditEntry | None
    repeated: bool = False


def perform(request: Request, *, user: User, key: str | None) -> Outcome:
    """Do an action once. The same key again changes nothing and gives the same entry.

    Raises PermissionDenied, Http404, FieldsRefused, Unconfirmed, Outdated, ActionRefused; nothing is changed then.
    """
    action = request.action
    may(action, user)
    target = action.locate(request.where)
    if not action.visible(target, user):
        raise missing(action.kind)
    form = action.form(target, request.data, request.files)
    if not form.is_valid():
        raise FieldsRefused(errors_of(form), form)
    question = action.question(target, form.cleaned_data) if action.must_confirm else None
    if question is not None and request.data.get("sure") not in ("1", "true"):
        raise Unconfirmed(question)
    try:
        outcome = _once(request, target, form, user, key)
    except (IntegrityError, ActionRefused) as error:
        # Of two calls under one key at the same moment the second met what the first had done.
        entry = action_done(key=key, verb=action.verb or action.name) if action.own_entry else None
        if entry is None:
            if isinstance(error, FieldsRefused):
                error.form = error.form or form
            raise
        return Outcome(target, action.again(entry), entry, repeated=True)
    if outcome.result.then is not None:
        outcome.result.then()
    return outcome


def may(action: Action, user: User) -> None:
    """Raise PermissionDenied with the role that is missing."""
    lacking = action.may(user)
    if lacking is not None:
        require(user, lacking, *action.also)


def _once(request: Request, target: Any, form: forms.Form, user: User, key: str | None) -> Outcome:
    action = request.action
    with transaction.atomic():
        done = action_done(key=key, verb=action.verb or action.name) if action.own_entry else None
        if done is not None:
            return Outcome(target, action.again(done), done, repeated=True)
        if request.version is not None and target is not None:
            _fresh(action, target, request.version)
        result = action.run(target, form.cleaned_data, Call(user, key))
        if result.message and not action.own_words:
            result = replace(result, message=done_message(result.message))
        entry = result.entry or (AuditEntry.objects.filter(key=key).first() if key else None)
    return Outcome(target, result, entry)


def _fresh(action: Action, target: Any, version: int) -> None:
    """Raise Outdated unless the locked object is at this version."""
    locked = action.lock(target)
    if action.kind.version(locked) != version:
        message = gettext("The %(noun)s has changed since version %(version)d. Read it again.")
        raise Outdated(message % {"noun": action.kind.noun, "version": version}, action.kind.now(locked))


def undo(entry: AuditEntry, *, user: User, key: str | None = None) -> Result:
    """Take an action back. The same key again does nothing. The caller runs `then` after its transaction.

    Raises PermissionDenied where the action belongs to another role, ActionRefused with why it cannot be.
    """
    row = registry.verb(entry.verb)
    if row is None:
        raise ActionRefused(irreversible(registry.Unknown.irreversible))
    require(user, undo_role(row))
    if key and AuditEntry.objects.filter(key=key).exists():
        return Result()
    standing = row.standing(entry, row.kind.load([entry]))
    if not standing.label:
        raise ActionRefused(irreversible(standing.why_not))
    call = Call(user, key)
    try:
        with transaction.atomic():
            if isinstance(row, Action) and row.inverse and type(row).undo is Recorded.undo:
                return registry.action(row.inverse).run(row.kind.find(entry), {}, call)
            return row.undo(entry, call)
    except ActionRefused:  # the same, of two calls under one key
        if key and AuditEntry.objects.filter(key=key).exists():
            return Result()
        raise


def undo_role(row: Recorded) -> Role:
    """Who may undo entries of this verb."""
    return row.undo_role or (row.role if isinstance(row, Action) else Role.OPERATOR)


def errors_of(form: forms.Form) -> dict[str, str]:
    """A sentence by the name of each field; `__all__` for the form as a whole."""
    rows = form.errors.get_json_data().items()
    return {name: " ".join(error["message"] for error in errors) for name, errors in rows}
