"""The API as one object: its operations, what its errors look like, its schema."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from ninja import NinjaAPI, Path, Router, Schema
from ninja.errors import HttpError, ValidationError
from ninja.operation import Operation
from ninja.params.functions import Header
from pydantic import Field, create_model

from adaexplore_site.registry.acts import ACTS
from adaexplore_site.registry.entries import Act
from search.api import library, running, searches
from search.api.acting import act_do
from search.api.answers import answered_once, fingerprint
from search.api.auth import AUTH
from search.api.bodies import BadBody, FileIn, body_model, body_read

KEY = Header("", alias="Idempotency-Key", description="makes a repetition one act")
TYPES = {"key": "slug", "device": "str", "slug": "slug"}  # converters of addresses; numbers else
WORDS = "Reads what the pages show and does what their forms do. Every number carries its basis; unknown is null."


class Api(NinjaAPI):
    """Operations are named as their functions are."""

    def get_openapi_operation_id(self, operation: Operation) -> str:
        """The name in the schema."""
        return operation.view_func.__name__


api = Api(
    title="AdaExplore Dashboard", version="1", description=WORDS, urls_namespace="api", auth=AUTH, openapi_url=None,
    docs_url=None,
)  # fmt: skip
for _room in (searches.router, library.router, running.router):
    api.add_router("", _room)
acts = Router()


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


ERRORS = dict.fromkeys((401, 403, 404, 409, 422), Problem)


def act_path(act: Act) -> str:
    """`/acts/steer.pin/{int:run_id}`."""
    return "/".join([f"/acts/{act.id}", *(f"{{{TYPES.get(name, 'int')}:{name}}}" for name in act.takes)])


def operation_of(act: Act) -> Callable[..., Any]:
    """The function that does one act."""
    model = body_model(act)
    kinds: dict[str, Any] = {name: (str if name in TYPES else int, ...) for name in act.takes}
    where_model = create_model(f"Where_{act.id.replace('.', '_')}", __base__=Schema, **kinds)

    def operation(request: HttpRequest, where: Any, key: Any = KEY) -> HttpResponse:
        values = {name: getattr(where, name) for name in act.takes}
        fields, files = body_read(request, act, model)
        assert isinstance(request.user, User)
        answer = answered_once(
            user=request.user,
            key=key[:120],
            asked=fingerprint(act.id, values, fields, files),
            now=timezone.now(),
            do=lambda: act_do(request, act, values, fields, files, key),
        )
        return JsonResponse(answer.body, status=answer.status)

    def placeless(request: HttpRequest, key: Any = KEY) -> HttpResponse:
        return operation(request, None, key)

    chosen = operation if act.takes else placeless
    chosen.__annotations__ = {"request": HttpRequest, "key": str, "where": Path[where_model]}  # type: ignore[valid-type,misc]
    chosen.__name__ = act.id
    return chosen


def _register(act: Act) -> None:
    schema = body_model(act).model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    acts.post(
        act_path(act),
        response={200: Done, 202: Problem, **ERRORS},
        operation_id=act.id,
        url_name=f"act-{act.id}",
        summary=act.label,
        description=_said(act),
        tags=["acts: " + act.id.partition(".")[0]],
        openapi_extra={"requestBody": {"content": {"application/json": {"schema": schema}}}},
    )(operation_of(act))


def _said(act: Act) -> str:
    against = f"Taken back by {act.inverse}." if act.inverse else act.confirm or act.stays
    return f"Needs the role {act.role}. {against}"


for _act in ACTS:
    _register(_act)
api.add_router("", acts)


@api.get("/openapi.json", include_in_schema=False, url_name="openapi")
def openapi(request: HttpRequest) -> HttpResponse:
    """The schema of all operations."""
    return JsonResponse(schema())


@api.exception_handler(ValidationError)
def _bad_query(request: HttpRequest, error: ValidationError) -> HttpResponse:
    fields = {".".join(str(part) for part in one["loc"][1:]): f"{one['msg']}." for one in error.errors}
    words = " ".join(f"{name}: {text}" for name, text in fields.items())
    return JsonResponse({"detail": words, "fields": fields}, status=422)


@api.exception_handler(BadBody)
def _bad_body(request: HttpRequest, error: BadBody) -> HttpResponse:
    return JsonResponse({"detail": str(error), "fields": error.fields}, status=422)


@api.exception_handler(Http404)
def _missing(request: HttpRequest, error: Http404) -> HttpResponse:
    return JsonResponse({"detail": str(error) or "There is no such thing."}, status=404)


@api.exception_handler(PermissionDenied)
def _denied(request: HttpRequest, error: PermissionDenied) -> HttpResponse:
    return JsonResponse({"detail": str(error)}, status=403)


@api.exception_handler(HttpError)
def _said_so(request: HttpRequest, error: HttpError) -> HttpResponse:
    headers = {"WWW-Authenticate": "Bearer"} if error.status_code == 401 else {}
    detail = "Sign in: send Authorization: Bearer and a token." if error.message == "Unauthorized" else error.message
    return JsonResponse({"detail": detail}, status=error.status_code, headers=headers)


@cache
def schema() -> dict[str, Any]:
    """OpenAPI 3.1 of everything above, without the parts that only say where an act is done."""
    found = dict(api.get_openapi_schema(path_prefix="/api/v1/"))
    parts = {name: one for name, one in found["components"]["schemas"].items() if not name.startswith("Where_")}
    found["components"] = {**found["components"], "schemas": {**parts, "FileIn": FileIn.model_json_schema()}}
    return found
