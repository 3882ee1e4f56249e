"""The request as our views see it, for the type checker: signed in, with htmx details."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme
from django_htmx.middleware import HtmxDetails


class SiteRequest(HttpRequest):
    """What the middleware makes of a request before a view that needs sign-in gets it."""

    user: User
    htmx: HtmxDetails


def form_key(request: HttpRequest) -> str | None:
    """The key that makes a repeated submit one act."""
    return request.POST.get("key", "")[:64] or None


def current_path(request: HttpRequest) -> str:
    """Path and query of the page that htmx asks from; "/" when the header says none or cannot be read."""
    try:
        here = urlsplit(request.headers.get("HX-Current-URL", "/"))
    except ValueError:  # an address like http://[x
        return "/"
    return here.path + (f"?{here.query}" if here.query else "")


def came_from(request: HttpRequest) -> str:
    """The page of ours that a form names in `back`; empty for none, or for an address elsewhere."""
    back = request.POST.get("back", "")[:2_000]
    return back if back.startswith("/") and url_has_allowed_host_and_scheme(back, allowed_hosts=None) else ""
