"""What people did to a search, with Undo."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from adaexplore_site.actions import registry
from adaexplore_site.actions.views import done, submit
from adaexplore_site.core.audit import ActionRefused, FieldsRefused
from adaexplore_site.core.requests import SiteRequest
from judge.evaluations.measures import Measure
from search.records.kinds import RUN
from search.records.models import Run
from search.records.queries import best_number
from search.steering.activity import MOST, activity_of
from search.steering.forms import TYPED
from search.steering.many import ACTS, KINDS, STATES, NodeFilter, batch_of
from search.steering.snapshot import Snapshot

EXAMPLES = 12


@require_safe
@never_cache
def run_activity(request: SiteRequest, run_id: int) -> HttpResponse:
    """What people did to a search, with Undo."""
    run = registry.shown(RUN, run_id)
    rows = activity_of(run)
    context = {"run": run, "rows": rows, "cut": len(rows) == MOST}
    return render(request, "steering/run_activity.html", context)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def run_bulk(request: SiteRequest, run_id: int) -> HttpResponseBase:
    """GET: how many nodes of the filter each act would reach. POST: do one, while they are the same."""
    run = get_object_or_404(Run.objects.select_related("problem", "device"), pk=run_id)
    if request.method != "POST":
        return _page(request, run)
    action = registry.action("steer.bulk")
    try:
        outcome = submit(request, action, {"run_id": run_id})
    except ActionRefused as error:
        return _page(request, run, error)
    return done(request, action, outcome)


def _page(request: SiteRequest, run: Run, error: ActionRefused | None = None) -> HttpResponseBase:
    """As of now: what a refused form had chosen is chosen again, and counted anew."""
    given = request.POST if request.method == "POST" else request.GET
    context: dict[str, Any] = {"run": run, "kinds": KINDS, "refused": str(error) if error else ""}
    if isinstance(error, FieldsRefused):
        context["errors"] = error.fields
    status = 200 if error is None else error.status
    fields = {name: str(value) for name, value in given.items() if name != "told"}
    try:
        chosen = NodeFilter.of(fields, given.getlist("state"))
    except FieldsRefused as wrong:
        status = 422
        context |= {"refused": context["refused"] or str(wrong), "errors": wrong.fields, "typed_fields": fields}
    else:
        context |= _counted(run, chosen)
    context |= {name: fields.get(name, "") for name in ("under", "below", "quota", "boost")}
    context["steerable"] = not run.ended and run.state != Run.State.STOPPING
    return render(request, "steering/run_bulk.html", context, status=status)


def _counted(run: Run, chosen: NodeFilter) -> dict[str, Any]:
    now = Snapshot(run)
    rows = chosen.matching(now.rows)
    batches = [batch_of(now, act, chosen) for act in ACTS]
    best = best_number(now.rows)
    return {
        "chosen": chosen,
        "told": max((row.told_order or 0 for row in now.rows), default=0),
        "in_flight": sum(row.told_order is None and row.state != "cancelled" for row in now.rows),
        "states": [
            (label, count, chosen.toggled(name), name in chosen.states, name)
            for name, label, count in chosen.counts(now.rows)
        ],
        "matched": len(rows),
        "examples": [(row, row.style(), STATES[row.style()], Measure.of(row)) for row in rows[:EXAMPLES]],
        "more": max(0, len(rows) - EXAMPLES),
        "batches": batches,
        "typed_above": TYPED,
        "best_among": best is not None and any(row.number == best for row in rows),
    }
