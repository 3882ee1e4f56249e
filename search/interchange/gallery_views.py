"""Recorded searches for people who have none yet: where files come from, importing one, and its replay."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from adaexplore_site.actions import registry
from adaexplore_site.core.requests import SiteRequest
from search.interchange.actions import play_address
from search.interchange.archives import MAX_ZIP_BYTES
from search.interchange.import_views import import_form
from search.interchange.recorded_files import recorded_files
from search.records.models import Run
from search.records.queries import run_summaries

SHOWN = 24


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def gallery(request: SiteRequest) -> HttpResponseBase:
    """A POST imports an uploaded file, or the one `name`d among those on this machine, and leads to its replay."""
    return import_form(request, registry.action("gallery.import"), _page)


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
    return render(request, "interchange/gallery.html", context, status=422 if error else 200)
