"""All addresses of the site."""

from __future__ import annotations

from django.urls import include, path

handler400 = "adaexplore_site.core.middleware.bad_request"
handler500 = "adaexplore_site.operations.busy.fault"

urlpatterns = [
    path("", include("adaexplore_site.accounts.signin")),
    path("", include("adaexplore_site.settings_pages.urls")),
    path("", include("judge.urls")),
    path("", include("memory.urls")),
    path("api/v1/", include("adaexplore_site.api.urls")),
    path("", include("search.urls")),
    path("", include("adaexplore_site.activity.urls")),
    path("", include("adaexplore_site.notifications.urls")),
    path("", include("adaexplore_site.palette.urls")),
    path("", include("adaexplore_site.saved_views.urls")),
]
