"""All addresses of the site."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [
    path("", include("adaexplore_site.signin")),
    path("", include("adaexplore_site.settings_views")),
    path("", include("adaexplore_site.token_views")),
    path("", include("adaexplore_site.webhook_views")),
    path("", include("judge.urls")),
    path("", include("memory.urls")),
    path("api/v1/", include("search.api.urls")),
    path("", include("search.urls")),
]
