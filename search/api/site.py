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

from adaexplore_site.registry.acts import ACTS
from adaexplore_site.registry.entries import Act
from search.api import library, running, searches
from search.api.acting import act_do, not_allowed, outdated
from search.api.answers import answered_once, fingerprint
from search.api.auth import AUTH
from search.api.bodies import BadBody, body_read

KEY = Header("", alias="Idempotency-Key", description="makes a repetition one act")
VERSION = Header(
    "", alias="If-Match", description="event_seq of the search as it was read: refused when it has gone on"
)
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


def act_path(act: Act) -> str:
    """`/acts/steer.pin/{run_id}`. What is no address of the act's form is 404 when it is looked up."""
    return "/".join([f"/acts/{act.id}", *(f"{{{name}}}" for name in act.takes)])


@cache
def _where(takes: tuple[str, ...]) -> type[Schema]:
    """The parts of an address that say where an act is done."""
    kinds: dict[str, Any] = {name: (int if name.endswith("_id") or name == "number" else str, ...) for name in takes}
    return create_model(f"Where_{'_'.join(takes)}", __base__=Schema, **kinds)


def operation_of(act: Act) -> Callable[..., Any]:
    """The function that does one act."""

    def done(request: HttpRequest, where: Any, key: str, version: str) -> HttpResponse:
        values = {name: getattr(where, name) for name in act.takes}
        fields, files = body_read(request, act)
        assert isinstance(request.user, User)
        answer = not_allowed(request, act, values) or answered_once(
            user=request.user,
            key=key[:120],
            asked=fingerprint(act.id, values, fields, files),
            now=timezone.now(),
            do=lambda: outdated(values, version) or act_do(request, act, values, fields, files, key),
        )
        return JsonResponse(answer.body, status=answer.status)

    def on_search(request: HttpRequest, where: Any, key: Any = KEY, version: Any = VERSION) -> HttpResponse:
        return done(request, where, key, version)

    def placed(request: HttpRequest, where: Any, key: Any = KEY) -> HttpResponse:
        return done(request, where, key, "")

    def placeless(request: HttpRequest, key: Any = KEY) -> HttpResponse:
        return done(request, None, key, "")

    chosen = on_search if "run_id" in act.takes else placed if act.takes else placeless
    chosen.__annotations__ = {"request": HttpRequest, "key": str, "version": str}
    if act.takes:
        chosen.__annotations__["where"] = Path[_where(act.takes)]  # type: ignore[misc]
    chosen.__name__ = act.id
    return chosen


def _register(act: Act) -> None:
    acts.post(
        act_path(act),
        operation_id=act.id,
        url_name=f"act-{act.id}",
        summary=act.label,
        description=_said(act),
        tags=["acts: " + act.id.partition(".")[0]],
    )(operation_of(act))


def _said(act: Act) -> str:
    against = f"Taken back by {act.inverse}." if act.inverse else act.confirm or act.stays
    return f"Needs the role {act.role}. {against}"


for _act in ACTS:
    _register(_act)
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
