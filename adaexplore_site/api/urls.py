"""Addresses of the API. Its own sign-in guards the operations: a program gets 401, never a form."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import HttpResponse
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from ninja.openapi.docs import Swagger

import adaexplore_site.api.site  # noqa: F401  adds the operation openapi.json
from adaexplore_site.api.site import api
from adaexplore_site.core.requests import SiteRequest

_patterns, _app, _namespace = api.urls
for _one in _patterns:
    if isinstance(_one, URLPattern):
        _one.callback = login_not_required(never_cache(_one.callback))


class Reference(Swagger):
    """django-ninja's reference inside a page of the site. It can only read: actions have pages that ask first."""

    template = "api/docs.html"
    default_settings = {
        "layout": "BaseLayout",
        "deepLinking": True,
        "docExpansion": "none",
        "filter": True,
        "supportedSubmitMethods": ["get"],
        "syntaxHighlight": False,  # its colours are too faint
        "validatorUrl": None,
    }


reference = Reference()


@never_cache
@require_safe
def docs(request: SiteRequest) -> HttpResponse:
    """The reference of all operations."""
    return reference.render_page(request, api)


urlpatterns = [
    path("docs", docs, name="api-docs"),
    path("", (_patterns, _app, _namespace)),
]
