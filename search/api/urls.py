"""Addresses of the API. Its own sign-in guards the operations: a program gets 401, never a form."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.urls import URLPattern, path
from django.views.decorators.cache import never_cache

from search.api import reference
from search.api.site import api

_patterns, _app, _namespace = api.urls
for _one in _patterns:
    if isinstance(_one, URLPattern):
        _one.callback = login_not_required(never_cache(_one.callback))

urlpatterns = [
    path("docs", reference.docs, name="api-docs"),
    path("", (_patterns, _app, _namespace)),
]
