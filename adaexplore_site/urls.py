"""All addresses of the site."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.urls import include, path
from django.views.decorators.cache import cache_control
from django.views.i18n import JavaScriptCatalog

from adaexplore_site.actions.views import action_routes

handler400 = "adaexplore_site.core.middleware.bad_request"
handler500 = "adaexplore_site.operations.busy.fault"

# Texts of the scripts in the language of the request; the page of a stranger loads it, too.
catalog = login_not_required(cache_control(max_age=3600)(JavaScriptCatalog.as_view()))

urlpatterns = [
    path("catalog.js", catalog, name="javascript-catalog"),
    path("", include("adaexplore_site.accounts.signin")),
    path("", include("adaexplore_site.settings_pages.urls")),
    path("", include("judge.urls")),
    path("", include("memory.urls")),
    path("api/v1/", include("adaexplore_site.api.urls")),
    path("", include("search.urls")),
    path("", include("adaexplore_site.activity.urls")),
    path("", include("adaexplore_site.notifications.urls")),
    path("", include("adaexplore_site.palette.urls")),
    *action_routes("adaexplore_site"),
]
