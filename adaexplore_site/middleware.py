"""What holds for every view: nobody reads without signing in, and text that no row can hold is bad input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.db import DataError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render, resolve_url
from django.utils.deprecation import MiddlewareMixin
from django.utils.http import urlencode


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
        here = urlsplit(request.headers.get("HX-Current-URL", "/"))
        back = here.path + (f"?{here.query}" if here.query else "")
        target = f"{resolve_url(self.get_login_url(view_func))}?{urlencode({'next': back})}"
        return HttpResponse(status=401, headers={"HX-Redirect": target})


class NulIsBadInput(MiddlewareMixin):
    """A NUL in an address or a form is 400 with what to do: PostgreSQL refuses it, in a search as in a row."""

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """The page for PostgreSQL's refusal; other errors go on."""
        if isinstance(exception, DataError) and "NUL" in str(exception):
            return render(request, "400.html", status=400)
        return None
