"""What people did to a search, with Undo."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.core.requests import SiteRequest
from search.records.models import Run
from search.runs.removal import removed
from search.steering.activity import MOST, activity_kept, activity_of


@require_safe
@never_cache
def run_activity(request: SiteRequest, run_id: int) -> HttpResponse:
    """What people did to a search, with Undo."""
    run = Run.objects.select_related("problem", "device").filter(pk=run_id).first()
    if run is None:
        return _removed(request, run_id)
    rows = activity_of(run)
    context = {"run": run, "rows": rows, "cut": len(rows) == MOST}
    return render(request, "steering/run_activity.html", context)


def _removed(request: SiteRequest, run_id: int) -> HttpResponse:
    """Who removed a search, and what had been done to it."""
    act = removed(run_id)
    if act is None:
        raise Http404("There is no such search.")
    return render(request, "steering/run_removed.html", {"number": run_id, "act": act, "rows": activity_kept(run_id)})
