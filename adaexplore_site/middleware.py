"""Sign-in for every view: pages are sent to the sign-in page, fragments are told so without a page in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import resolve_url
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
