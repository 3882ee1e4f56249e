"""The JSON body of an act as the fields of its form, checked against what the registry says that the form asks for."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile, UploadedFile
from django.http import HttpRequest, QueryDict
from django.utils.datastructures import MultiValueDict
from ninja.errors import HttpError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

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
        raise HttpError(400, f"The body is no JSON: {str(error)[:120]}.") from error
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
        "missing": "It is needed.",
        "extra_forbidden": "There is no such field.",
    }.get(error["type"], f"{error['msg']}.")
