"""The API as one object: its operations, what its errors look like, its schema."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import DataError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from ninja import NinjaAPI, Path, Router, Schema
from ninja.errors import HttpError, ValidationError
from ninja.operation import Operation
from ninja.params.functions import Header
from pydantic import create_model

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Action
from adaexplore_site.api import library, running, searches
from adaexplore_site.api.actions import action_do, body_of, not_allowed
from adaexplore_site.api.answers import answered_once, fingerprint
from adaexplore_site.api.auth import AUTH
from adaexplore_site.api.bodies import BadBody, body_read

KEY = Header("", alias="Idempotency-Key", description="makes a repetition one act")
VERSION = Header("", alias="If-Match", description="version of the object as it was read: refused when it has changed")
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


def act_path(action: Action) -> str:
    """`/acts/steer.pin/{run_id}`. What is no address of the act's form is 404 when it is looked up."""
    return "/".join([f"/acts/{action.name}", *(f"{{{name}}}" for name in action.takes)])


@cache
def _where(takes: tuple[str, ...]) -> type[Schema]:
    """The parts of an address that say where an act is done."""
    kinds: dict[str, Any] = {name: (int if name.endswith("_id") or name == "number" else str, ...) for name in takes}
    return create_model(f"Where_{'_'.join(takes)}", __base__=Schema, **kinds)


def operation_of(action: Action) -> Callable[..., Any]:
    """The function that does one act."""

    def done(request: HttpRequest, where: Any, key: str, version: str) -> HttpResponse:
        values = {name: getattr(where, name) for name in action.takes}
        fields, files = body_read(request, body_of(action.name), action.sends)
        assert isinstance(request.user, User)
        answer = not_allowed(request, action) or answered_once(
            user=request.user,
            key=key[:120],
            asked=fingerprint(action.name, values, fields, files),
            now=timezone.now(),
            do=lambda: action_do(request, action, values, fields, files, key, version),
        )
        return JsonResponse(answer.body, status=answer.status)

    def on_object(request: HttpRequest, where: Any, key: Any = KEY, version: Any = VERSION) -> HttpResponse:
        return done(request, where, key, version)

    def placeless(request: HttpRequest, key: Any = KEY) -> HttpResponse:
        return done(request, None, key, "")

    chosen = on_object if action.takes else placeless
    chosen.__annotations__ = {"request": HttpRequest, "key": str, "version": str}
    if action.takes:
        chosen.__annotations__["where"] = Path[_where(action.takes)]  # type: ignore[misc]
    chosen.__name__ = action.name
    return chosen


def _register(action: Action) -> None:
    acts.post(
        act_path(action),
        operation_id=action.name,
        url_name=f"act-{action.name}",
        summary=action.label,
        description=_said(action),
        tags=["acts: " + action.name.partition(".")[0]],
    )(operation_of(action))


def _said(action: Action) -> str:
    if action.inverse:
        return f"Needs the role {action.role}. Taken back by {action.inverse}."
    against = f"No undo: {action.irreversible}." if action.irreversible else "Undone by action.undo."
    return f"Needs the role {action.role}. {against}"


for _action in registry.actions():
    _register(_action)
api.add_router("", acts)


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


@api.exception_handler(RequestDataTooBig)
def _too_big(request: HttpRequest, error: RequestDataTooBig) -> HttpResponse:
    most = (settings.DATA_UPLOAD_MAX_MEMORY_SIZE or 0) >> 20
    return JsonResponse({"detail": f"The body is over {most} MiB. Send files as multipart/form-data."}, status=413)


@api.exception_handler(DataError)
def _nul(request: HttpRequest, error: DataError) -> HttpResponse:
    if "NUL" not in str(error):
        raise error
    return JsonResponse({"detail": "A text holds a NUL character, which no row can hold. Leave it out."}, status=400)


@api.exception_handler(PermissionDenied)
def _denied(request: HttpRequest, error: PermissionDenied) -> HttpResponse:
    return JsonResponse({"detail": str(error)}, status=403)


@api.exception_handler(HttpError)
def _said_so(request: HttpRequest, error: HttpError) -> HttpResponse:
    headers = {"WWW-Authenticate": "Bearer"} if error.status_code == 401 else {}
    detail = "Sign in: send Authorization: Bearer and a token." if error.message == "Unauthorized" else error.message
    return JsonResponse({"detail": detail}, status=error.status_code, headers=headers)
