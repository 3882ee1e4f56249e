"""The pages that import a recorded search and remove it again."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Action
from adaexplore_site.actions.views import done, submit
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.requests import SiteRequest
from search.interchange.archives import MAX_ZIP_BYTES
from search.runs.removal import removal_of, removed_lately

Page = Callable[[SiteRequest, str], HttpResponse]
LATELY = 10  # removals listed


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def run_import(request: SiteRequest) -> HttpResponseBase:
    """Import a packed search or a zipped run folder. A file that cannot be imported is 422 with the reason."""
    return import_form(request, registry.action("run.import"), _page)


def _page(request: SiteRequest, error: str = "") -> HttpResponse:
    context: dict[str, Any] = {"limit_mib": MAX_ZIP_BYTES >> 20, "removed": removed_lately(LATELY), "error": error}
    return render(request, "interchange/run_import.html", context, status=422 if error else 200)


def import_form(request: SiteRequest, action: Action, page: Page) -> HttpResponseBase:
    """A page with a form that imports: `page` shows it, also with why a file was not imported."""
    if request.method != "POST":
        return page(request, "")
    try:
        outcome = submit(request, action, {})
    except ActionRefused as error:
        return page(request, str(error))
    return done(request, action, outcome)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def run_remove(request: SiteRequest, run_id: int) -> HttpResponseBase:
    """Say what removing an imported search takes along and what is against it, and ask; a POST removes it."""
    action, error, status = registry.action("run.remove"), "", 200
    if request.method == "POST":
        try:
            return done(request, action, submit(request, action, {"run_id": run_id}))
        except ActionRefused as refusal:
            error, status = str(refusal), 409
    run = action.locate({"run_id": run_id})
    context = {"run": run, "removal": removal_of(run), "error": error, "key": secrets.token_urlsafe(16)}
    return render(request, "interchange/run_remove.html", context, status=status)
