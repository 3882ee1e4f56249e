"""Addresses of `memory`."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

urlpatterns: list[URLPattern | URLResolver] = [
    path("rules/", include("memory.review.urls")),
]
