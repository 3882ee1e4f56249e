"""Recorded searches for people who have none yet: where files come from, taking one in, and watching it grow."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from adaexplore_site.access import Role, require
from adaexplore_site.audit import ActionRefused
from adaexplore_site.requests import SiteRequest
from search.compat.archives import MAX_ZIP_BYTES
from search.models import Run
from search.recorded.files import recorded_files, recorded_read
from search.selectors import run_summaries
from search.services.imports import search_import
from search.views.imports import examine, upload_take

SHOWN = 24


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def gallery(request: SiteRequest) -> HttpResponse:
    """A POST imports an uploaded file, or the one `name`d among those on this machine, and leads to its replay."""
    if request.method != "POST":
        return _page(request)
    require(request.user, Role.OPERATOR)
    try:
        run = _named(request) if request.POST.get("name") else upload_take(request)
    except ActionRefused as error:
        return _page(request, error=str(error))
    examine(run.problem)
    return redirect(play_address(run))


def play_address(run: Run) -> str:
    """The cockpit at the start of the search, growing."""
    return reverse("run-detail", args=[run.pk], query={"at": 0, "play": 1})


def _named(request: SiteRequest) -> Run:
    name = request.POST["name"][:200]
    try:
        data = recorded_read(name)
    except OSError as error:
        raise ActionRefused(f"{name} cannot be read: {error.strerror}. Choose another file.") from error
    if data is None:
        raise ActionRefused("There is no such file on this machine any more. Reload the page to see those that are.")
    if len(data) > MAX_ZIP_BYTES:
        raise ActionRefused(f"{name} is larger than {MAX_ZIP_BYTES >> 20} MiB. Import it by command: import_search.")
    return search_import(data=data, name=name, user=request.user)


def _page(request: SiteRequest, error: str = "") -> HttpResponse:
    runs = Run.objects.filter(origin=Run.Origin.IMPORT).select_related("problem", "device", "owner").order_by("-pk")
    imported = list(runs[:SHOWN])
    by_file = {run.imported.get("file"): run for run in reversed(imported)}
    files = [(file, by_file.get(file.name)) for file in recorded_files()]
    context: dict[str, Any] = {
        "rows": [(summary, play_address(summary.run)) for summary in run_summaries(imported)],
        "more": max(0, runs.count() - SHOWN),
        "files": [(file, run, play_address(run) if run else "") for file, run in files],
        "limit_mib": MAX_ZIP_BYTES >> 20,
        "error": error,
    }
    return render(request, "search/gallery.html", context, status=422 if error else 200)
