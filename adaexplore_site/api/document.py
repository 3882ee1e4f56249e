"""The OpenAPI document. What acts take and answer is added when somebody asks: made at the start, all of it together
would keep every process waiting."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.http import HttpRequest, JsonResponse
from ninja import Schema
from pydantic import BaseModel, Field

from adaexplore_site.actions import registry
from adaexplore_site.api.actions import body_of
from adaexplore_site.api.bodies import FileIn
from adaexplore_site.api.site import act_path, api

ERRORS = {
    202: "Not yet: send it again",
    401: "No token, or a wrong one",
    403: "Not for this role or scope",
    404: "There is no such thing",
    409: "Not possible now",
    422: "Fields to change",
}


class Problem(Schema):
    """What went wrong, for a person; `fields` by name, `now` what the act met."""

    detail: str
    fields: dict[str, str] = {}
    now: dict[str, Any] = {}


class Done(Schema):
    """An act that was done. `action` is its row in the audit, `at` the page that shows what came of it."""

    done: bool
    act: str
    said: list[str]
    at: str | None
    action: dict[str, Any] | None
    repeated: bool = Field(False, description="this is the first answer under the key, again")


@cache
def schema() -> dict[str, Any]:
    """OpenAPI 3.1 of all operations."""
    found = dict(api.get_openapi_schema(path_prefix="/api/v1/"))
    parts = {name: one for name, one in found["components"]["schemas"].items() if not name.startswith("Where_")}
    for part in (FileIn, Problem, Done):
        parts[part.__name__] = part.model_json_schema()
    for action in registry.actions():
        operation = found["paths"][f"/api/v1{act_path(action)}"]["post"]
        operation["requestBody"] = {"content": _json(_body(body_of(action.name)))}
        operation["responses"] = {
            200: {"description": "Done", "content": _json(_ref("Done"))},
            **{code: {"description": words, "content": _json(_ref("Problem"))} for code, words in ERRORS.items()},
        }
    found["components"] = {**found["components"], "schemas": parts}
    return found


def _body(model: type[BaseModel]) -> dict[str, Any]:
    found = model.model_json_schema(ref_template="#/components/schemas/{model}")
    found.pop("$defs", None)  # FileIn, which stands among the components
    return found


def _json(found: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": found}}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


@api.get("/openapi.json", include_in_schema=False, url_name="openapi-json")
def openapi(request: HttpRequest) -> JsonResponse:
    """This document."""
    return JsonResponse(schema())
