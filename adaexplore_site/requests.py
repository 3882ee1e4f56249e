"""The request as our views see it, for the type checker: signed in, with htmx details."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.http import HttpRequest
from django_htmx.middleware import HtmxDetails


class SiteRequest(HttpRequest):
    """What the middleware makes of a request before a view that needs sign-in gets it."""

    user: User
    htmx: HtmxDetails
