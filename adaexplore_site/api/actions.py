"""Actions as REST operations: JSON body by the form's fields, outcome as JSON, one answer per idempotency key."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.core.files.uploadedfile import SimpleUploadedFile, UploadedFile
from django.db import IntegrityError
from django.http import Http404, HttpRequest, QueryDict
from django.utils.datastructures import MultiValueDict
from django.utils.translation import override
from ninja.errors import HttpError
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from adaexplore_site.actions import registry, runner
from adaexplore_site.actions.action import Action
from adaexplore_site.actions.fields import NumberListField, TextListField
from adaexplore_site.actions.runner import Outcome, Outdated, Request, Unconfirmed
from adaexplore_site.api.models import ApiAnswer
from adaexplore_site.core.access import Role, roles_of
from adaexplore_site.core.audit import ActionRefused, FieldsRefused
from adaexplore_site.core.models import AuditEntry

OWN = ("key", "csrfmiddlewaretoken")  # fields that the API itself fills in, beside those that make the act


class FileIn(BaseModel):
    """A file: its name, and its content as `text` or in `base64`."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=200)
    text: str | None = None
    base64: str | None = None


class BadBody(Exception):
    """What was sent is no body of this act. `fields`: a sentence by the name of each."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__(" ".join(f"{name}: {text}" for name, text in fields.items()))
        self.fields = dict(fields)


def body_read(
    request: HttpRequest, model: type[BaseModel], fixed: Mapping[str, str]
) -> tuple[QueryDict, MultiValueDict[str, Any]]:
    """(fields, files) as a form reads them; `fixed` are those that nobody sends. Raises BadBody."""
    if request.content_type == "multipart/form-data":
        return request.POST.copy(), request.FILES
    given = _given(request)
    if "sure" not in model.model_fields:
        given.pop("sure", None)  # clients may send it with every action
    try:
        sent = model.model_validate(given).model_dump(exclude_unset=True)
    except ValidationError as error:
        raise BadBody({_name(one["loc"]): _said(one) for one in error.errors()}) from error
    fields, files = QueryDict(mutable=True), MultiValueDict[str, Any]()
    for name, value in sent.items():
        if name in (*OWN, *fixed) or value is None or value is False:
            continue
        if isinstance(value, dict):
            files[name] = _file(name, value)
        elif isinstance(value, list):
            fields.setlist(name, [str(one) for one in value])
        else:
            fields[name] = "1" if value is True else str(value)
    return fields, files


def _given(request: HttpRequest) -> dict[str, Any]:
    if not request.body:
        return {}
    try:
        given = json.loads(request.body)
    except (ValueError, RecursionError) as error:
        raise HttpError(400, f"The body is not valid JSON: {str(error)[:120]}.") from error
    if not isinstance(given, dict):
        raise HttpError(400, "The body must be a JSON object of fields.")
    return given


def _file(name: str, value: dict[str, Any]) -> UploadedFile[bytes]:
    text, coded = value.get("text"), value.get("base64")
    if (text is None) == (coded is None):
        raise BadBody({name: "Give its content either as text or as base64."})
    try:
        data = base64.b64decode(coded, validate=True) if coded is not None else str(text).encode()
    except ValueError as error:  # no base64, characters beyond ASCII in it, or text that is no Unicode
        raise BadBody({name: f"Its content cannot be read: {error}."}) from error
    return SimpleUploadedFile(value["name"], data)


def _name(place: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in place)


def _said(error: Any) -> str:
    """Pydantic's own words, where they say enough."""
    return {
        "missing": "This field is required.",
        "extra_forbidden": "Unknown field.",
    }.get(error["type"], f"{error['msg']}.")


SHOWN_ONCE = ("link", "token_text", "secret", "cases")  # parts of an answer that nobody can read again
KEPT = timedelta(days=1)
CONFLICT = "This Idempotency-Key was already used for another request. Use a new key for each action."


@dataclass(frozen=True)
class Answer:
    """Status and body of an action."""

    status: int
    body: dict[str, Any]


def audit_key(user: User, action: str, key: str) -> str:
    """The key of the audit entry: keys of others, and of other actions, are never met."""
    text = f"{user.pk}\0{action}\0{key or secrets.token_urlsafe(24)}"
    return hashlib.sha256(text.encode()).hexdigest()


def answered_once(*, user: User, key: str, asked: str, now: datetime, do: Callable[[], Answer]) -> Answer:
    """The first answer under this key, or that of `do`. 409 for another request under a known key.

    Only what was done is kept: a refused act can be sent again under its key. Where the first request has not been
    answered yet, or its process died, `do` runs again: the act itself is one by its key in the audit. Two that do it
    at once meet there, and the later one looks again.
    """
    if not key:
        return do()
    ApiAnswer.objects.filter(created_at__lt=now - KEPT).delete()
    row, mine = ApiAnswer.objects.get_or_create(user=user, key=key, defaults={"asked": asked})
    if row.asked != asked:
        return Answer(409, {"detail": CONFLICT, "now": {"answer": row.answer}})
    if row.answer is not None:
        return Answer(200, {**row.answer, "repeated": True})
    try:
        answer = do()
    except IntegrityError:
        row = ApiAnswer.objects.filter(pk=row.pk).first() or row
        if row.answer is not None:
            return Answer(200, {**row.answer, "repeated": True})
        answer = do()
    if answer.status != 200:
        if mine:
            ApiAnswer.objects.filter(pk=row.pk, answer__isnull=True).delete()
        return answer
    kept = {name: value for name, value in answer.body.items() if name not in SHOWN_ONCE}
    ApiAnswer.objects.filter(pk=row.pk).update(answer=kept)
    return answer


def fingerprint(act: str, where: Mapping[str, Any], fields: QueryDict, files: Mapping[str, Any]) -> str:
    """SHA-256 of what a request asks for."""
    contents = {}
    for name, one in files.items():
        contents[name] = [one.name, hashlib.sha256(one.read()).hexdigest()]
        one.seek(0)
    text = json.dumps([act, dict(where), sorted(fields.lists()), contents], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


SURE = "true: confirm an action that cannot be undone"
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
        with override(settings.LANGUAGE_CODE):  # it is made once, for readers of every language
            words = str(field.help_text or field.label or "")
        fields[part] = (kind, Field(... if needed else None, description=words))
    if action.must_confirm and type(action).question is not Action.question:
        fields["sure"] = (bool, Field(None, description=SURE))
    config = ConfigDict(extra="allow" if action.open_schema else "forbid", coerce_numbers_to_str=True)
    return create_model(action.name, __config__=config, **fields)


def not_allowed(request: HttpRequest, action: Action) -> Answer | None:
    """403 for whoever may not do the action now, even where it was done before."""
    assert isinstance(request.user, User)
    if getattr(request.user, "via", "") and roles_of(request.user) <= {Role.VIEWER}:
        return Answer(403, {"detail": _why(request, "With the role viewer, a token can only read.")})
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
        return Answer(404, {"detail": str(missing) or "This object does not exist."})
    except FieldsRefused as error:
        return _fields(error)
    except Unconfirmed as error:
        return Answer(409, {"detail": f"{error} Send sure: true to confirm.", "sure": False})
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
        raise FieldsRefused({"If-Match": "If-Match must be the version of the object that you read."})
    return int(wanted)


def _fields(error: FieldsRefused) -> Answer:
    """422 with a sentence by the name of each field."""
    fields = {name: text for name, text in error.fields.items() if name != "__all__"}
    body: dict[str, Any] = {"detail": str(error) or "Some fields are invalid."}
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
        return Answer(202, {"done": False, "detail": f"{result.pending} Send the request again in a few seconds."})
    if result.warning:
        return Answer(409, {"detail": str(result.warning)})
    body = {
        "done": True,
        "act": action.name,
        "said": [str(result.message)] if result.message else [],
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
