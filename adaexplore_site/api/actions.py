"""Actions as REST operations: the JSON body by the fields of the action's form, the outcome as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, QueryDict
from django.utils.datastructures import MultiValueDict
from pydantic import BaseModel, ConfigDict, Field, create_model

from adaexplore_site.actions import registry, runner
from adaexplore_site.actions.action import Action
from adaexplore_site.actions.fields import NumberListField, TextListField
from adaexplore_site.actions.runner import Outcome, Outdated, Request, Unconfirmed
from adaexplore_site.api.answers import Answer, audit_key
from adaexplore_site.api.bodies import FileIn
from adaexplore_site.core.access import Role, roles_of
from adaexplore_site.core.audit import ActionRefused, FieldsRefused
from adaexplore_site.core.models import AuditEntry

SURE = "true: do it, although nothing takes it back"
_TYPES: tuple[tuple[type[forms.Field], Any], ...] = (
    (forms.FileField, FileIn),
    (forms.BooleanField, bool),
    (NumberListField, list[int]),
    (TextListField, list[str]),
    (forms.MultipleChoiceField, list[str]),
    (forms.FloatField, float),
    (forms.DecimalField, str),
    (forms.IntegerField, int),
)


@cache
def body_of(name: str) -> type[BaseModel]:
    """The fields of an action's form as a JSON body. Made when it is first needed: all of them together would keep
    every start waiting."""
    action = registry.action(name)
    fields: dict[str, Any] = {}
    for part, field in action.Form.base_fields.items():
        kind = next((kind for known, kind in _TYPES if isinstance(field, known)), str)
        if isinstance(field.widget, forms.HiddenInput) and part in action.sends:
            continue
        needed = field.required and not isinstance(field, forms.BooleanField)
        words = str(field.help_text or field.label or "")
        fields[part] = (kind, Field(... if needed else None, description=words))
    if type(action).question is not Action.question:
        fields["sure"] = (bool, Field(None, description=SURE))
    config = ConfigDict(extra="allow" if action.open_schema else "forbid", coerce_numbers_to_str=True)
    return create_model(action.name, __config__=config, **fields)


def not_allowed(request: HttpRequest, action: Action) -> Answer | None:
    """403 for whoever may not do the action now, even where it was done before."""
    assert isinstance(request.user, User)
    if getattr(request.user, "via", "") and roles_of(request.user) <= {Role.VIEWER}:
        return Answer(403, {"detail": _why(request, "The role viewer reads and does nothing by a token.")})
    try:
        runner.may(action, request.user)
    except PermissionDenied as refusal:
        return Answer(403, {"detail": _why(request, str(refusal))})
    return None


def action_do(
    request: HttpRequest,
    action: Action,
    where: Mapping[str, Any],
    fields: QueryDict,
    files: MultiValueDict[str, Any],
    key: str,
    version: str,
) -> Answer:
    """Do it and say what came of it. `key` makes a repetition one action."""
    assert isinstance(request.user, User)
    own = audit_key(request.user, action.name, key)
    for name, value in action.sends.items():
        fields[name] = value
    try:
        asked = Request(action, where, fields, files, _version(version))
        return _done(action, runner.perform(asked, user=request.user, key=own))
    except PermissionDenied as refusal:
        return Answer(403, {"detail": _why(request, str(refusal))})
    except Http404 as missing:
        return Answer(404, {"detail": str(missing) or "There is no such thing."})
    except FieldsRefused as error:
        return _fields(error)
    except Unconfirmed as error:
        return Answer(409, {"detail": f"{error} Send sure: true to do it.", "sure": False})
    except Outdated as error:
        return Answer(409, {"detail": str(error), "now": error.now})
    except ActionRefused as error:
        return Answer(409, _now(action, where, str(error)))


def _version(text: str) -> int | None:
    """The number that `If-Match` names. Raises FieldsRefused for anything else."""
    wanted = text.strip().removeprefix("W/").strip('"')
    if not wanted:
        return None
    if not (wanted.isascii() and wanted.isdigit() and len(wanted) < 19):
        raise FieldsRefused({"If-Match": "If-Match takes the version of the object as it was read."})
    return int(wanted)


def _fields(error: FieldsRefused) -> Answer:
    """422 with a sentence by the name of each field."""
    fields = {name: text for name, text in error.fields.items() if name != "__all__"}
    body: dict[str, Any] = {"detail": str(error) or "Some fields are wrong."}
    return Answer(422, {**body, "fields": fields} if fields else body)


def _now(action: Action, where: Mapping[str, Any], message: str) -> dict[str, Any]:
    """The refusal, with the object as the action met it."""
    target = action.locate(where)
    body: dict[str, Any] = {"detail": message}
    return body if target is None else {**body, "now": action.kind.now(target)}


def _done(action: Action, outcome: Outcome) -> Answer:
    """200 with what was done; 202 where something is waited for first."""
    result = outcome.result
    if result.pending:
        return Answer(202, {"done": False, "detail": f"{result.pending} Send it again soon."})
    if result.warning:
        return Answer(409, {"detail": result.warning})
    body = {
        "done": True,
        "act": action.name,
        "said": [result.message] if result.message else [],
        "at": result.location or action.home(outcome.target),
        "action": None if outcome.entry is None else entry_json(outcome.entry),
    }
    return Answer(200, {**body, **result.shown_once})


def entry_json(entry: AuditEntry) -> dict[str, Any]:
    """An entry of the audit log."""
    return {"id": entry.pk, "verb": entry.verb, "object": [entry.object_type, entry.object_id], "after": entry.after}


def _why(request: HttpRequest, words: str) -> str:
    token = getattr(request.user, "via", "")
    return f"{words} The token “{token}” may lack the scope for it." if token else words
