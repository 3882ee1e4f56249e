"""The API as one object: who may ask, its operations, what its errors look like, its OpenAPI document."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from functools import cache
from typing import Any

from axes.handlers.proxy import AxesProxyHandler
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.signals import user_login_failed
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import DataError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from ninja import NinjaAPI, Path, Router, Schema
from ninja.errors import AuthenticationError, AuthorizationError, HttpError, ValidationError
from ninja.operation import Operation
from ninja.params.functions import Header
from ninja.security.base import AuthBase
from ninja.utils import check_csrf
from pydantic import BaseModel, Field, create_model

from adaexplore_site.accounts.services import user_of
from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Action
from adaexplore_site.api import jobs, library, running, searches
from adaexplore_site.api.actions import (
    BadBody,
    FileIn,
    action_do,
    answered_once,
    body_of,
    body_read,
    fingerprint,
    not_allowed,
)

log = logging.getLogger(__name__)
NOBODY = "API token"  # the name under which django-axes counts wrong tokens of an address


class Token(AuthBase):
    """`Authorization: Bearer ada_...`. Wrong ones are counted as failed sign-ins are; too many are 429 for a while."""

    openapi_type = "http"
    openapi_scheme = "bearer"
    openapi_description = "A token of Settings, Tokens"

    def __call__(self, request: HttpRequest) -> User | None:
        """The token's user with the roles that its scopes leave; None without a token."""
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":  # a proxy's own sign-in is none of ours
            return None
        user = user_of(text.strip(), now=timezone.now())
        if user is None:
            _refuse(request)
        else:
            request.user = user
        return user


class Session(AuthBase):
    """The cookie of a signed-in browser; what changes something needs its CSRF token, too."""

    openapi_type = "apiKey"
    openapi_in = "cookie"
    openapi_name = "adaexplore_session"
    openapi_description = "A signed-in browser; a POST needs the header X-CSRFToken"

    def __call__(self, request: HttpRequest) -> User | None:
        """The user of the session; None without one."""
        user = request.user
        if not isinstance(user, User) or not user.is_active:
            return None
        if check_csrf(request) is not None:
            raise AuthorizationError(message="The CSRF token is missing or wrong. Send X-CSRFToken, or use a token.")
        return user


def _refuse(request: HttpRequest) -> None:
    """A right token is never slowed: nobody can lock others out by trying wrong ones."""
    credentials, counted = {"username": NOBODY}, copy.copy(request)  # axes marks what it counts
    if not AxesProxyHandler.is_allowed(counted, credentials):
        raise HttpError(429, "Too many wrong tokens came from this address. Try again in a quarter of an hour.")
    log.warning("a request to the API had an unknown, revoked or expired token")
    user_login_failed.send(sender=__name__, credentials=credentials, request=counted)
    raise AuthenticationError(message="The token is unknown, revoked or expired. Issue another in Settings, Tokens.")


AUTH = (Token(), Session())


KEY = Header("", alias="Idempotency-Key", description="a repeated request with the same key is executed once")
VERSION = Header(
    "", alias="If-Match", description="version of the object that you read; refused if it has changed since"
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
for _room in (searches.router, library.router, running.router, jobs.router):
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
        summary=str(action.label),
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
    return JsonResponse({"detail": str(error) or "This object does not exist."}, status=404)


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


ERRORS = {
    202: "Not yet: send it again",
    401: "No token, or a wrong one",
    403: "Not for this role or scope",
    404: "This object does not exist",
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
