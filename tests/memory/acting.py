"""Does actions as pages and programs do, through the runner, for tests that walk many of them."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import QueryDict
from django.utils.datastructures import MultiValueDict

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Call, Standing
from adaexplore_site.actions.runner import Outcome, Request, errors_of, perform
from adaexplore_site.core.audit import FieldsRefused
from adaexplore_site.core.models import AuditEntry


def do(
    name: str,
    user: User,
    where: dict[str, Any],
    fields: dict[str, Any],
    key: str | None = "k",
    version: int | None = None,
) -> Outcome:
    """One action; fields that are bytes are sent as files."""
    data, files = QueryDict(mutable=True), MultiValueDict[str, Any]()
    for part, value in fields.items():
        if isinstance(value, bytes):
            files[part] = SimpleUploadedFile("rules.txt", value)
        else:
            data.setlist(part, [str(one) for one in value] if isinstance(value, list) else [str(value)])
    return perform(Request(registry.action(name), where, data, files, version), user=user, key=key)


def standing(entry: AuditEntry) -> Standing:
    """Whether the entry can be undone now."""
    row = registry.verb(entry.verb)
    assert row is not None
    return row.standing(entry, row.kind.load([entry]))


def act(name: str, *, user: User | None = None, key: str | None = None, where: dict[str, Any], **fields: Any) -> Any:
    """The same without the runner, as any user: the form is cleaned, the action is done, its entry comes back."""
    action = registry.action(name)
    form = action.Form(fields)
    if not form.is_valid():
        raise FieldsRefused(errors_of(form), form)
    return action.run(action.locate(where), form.cleaned_data, Call(user, key)).entry
