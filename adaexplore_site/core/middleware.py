"""What holds for every view: nobody reads without signing in, and why a request is bad (400)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.core.exceptions import DisallowedHost, RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.db import DataError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.http.multipartparser import MultiPartParserError
from django.shortcuts import render, resolve_url
from django.utils.deprecation import MiddlewareMixin
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _

from adaexplore_site.core.requests import current_path

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

TOO_LARGE = (
    _("The form is larger than the server accepts."),
    _("Send less at once, or upload large texts as files."),
)
CAUSES: dict[type[Exception], tuple[StrOrPromise, StrOrPromise]] = {  # what has happened, and what to do
    DataError: (
        _("The address or the form holds a character that cannot be stored (NUL)."),
        _("Go back, remove it and send again; text that was pasted from a binary file often has some."),
    ),
    RequestDataTooBig: TOO_LARGE,
    TooManyFieldsSent: TOO_LARGE,
    TooManyFilesSent: TOO_LARGE,
    MultiPartParserError: (_("The form arrived incomplete."), _("Go back and send it again.")),
    DisallowedHost: (
        _("The server does not answer to this host name."),
        _("Use the address that it was started with, or add the name to ALLOWED_HOSTS."),
    ),
}


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The page of a 400: the cause and what to do where they are known, else that it was not understood."""
    cause, fix = next((said for kind, said in CAUSES.items() if isinstance(exception, kind)), ("", ""))
    return render(request, "400.html", {"cause": cause, "fix": fix}, status=400)


class SignInRequired(LoginRequiredMiddleware):
    """Django's middleware, but an htmx request gets 401 and a header that leads the whole page to sign in.

    htmx follows a plain redirect and would swap the sign-in form into the panel that asked.
    """

    def handle_no_permission(  # type: ignore[override]  # the stubs promise a redirect; any response will do
        self, request: HttpRequest, view_func: Callable[..., Any]
    ) -> HttpResponseBase:
        """The answer to a stranger."""
        if request.headers.get("HX-Request") != "true":
            return super().handle_no_permission(request, view_func)
        target = f"{resolve_url(self.get_login_url(view_func))}?{urlencode({'next': current_path(request)})}"
        return HttpResponse(status=401, headers={"HX-Redirect": target})


class NulIsBadInput(MiddlewareMixin):
    """A NUL in an address or a form is 400 with what to do: PostgreSQL refuses it, in a search as in a row."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """The page for PostgreSQL's refusal; other errors go on."""
        if isinstance(exception, DataError) and "NUL" in str(exception):
            return bad_request(request, exception)
        return None
