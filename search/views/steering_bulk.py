"""One act on all nodes of a filter: the page says how many it reaches, then the act is one click."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from adaexplore_site.access import Role, require
from adaexplore_site.audit import ActionRefused, FieldsRefused
from adaexplore_site.requests import SiteRequest
from judge.measures import Measure
from judge.values import Basis
from search.act_words import act_text
from search.facts import NodeRow
from search.models import Run
from search.node_filter import KINDS, STATES, NodeFilter, look_of_row
from search.selectors import best_number
from search.services.desk import Desk
from search.services.steering_bulk import ACTS, VERB, batch_of, steer_bulk
from search.tasks import send
from search.views.steering_acts import number_in, whole

EXAMPLES = 12
TYPED = 50  # above so many, the person types the number


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def run_bulk(request: SiteRequest, run_id: int) -> HttpResponse:
    """GET: how many nodes of the filter each act would reach. POST: do one, while they are the same."""
    run = get_object_or_404(Run.objects.select_related("problem", "device"), pk=run_id)
    if request.method != "POST":
        return _page(request, run)
    require(request.user, Role.OPERATOR)
    fields = {name: str(value) for name, value in request.POST.items()}
    try:
        expected = whole(fields.get("typed") or fields.get("expected", ""), "nodes")
        if expected > TYPED and not fields.get("typed"):
            raise ActionRefused(f"Type {expected} to confirm: the act reaches more than {TYPED} nodes.")
        act = fields.get("act", "")
        values: dict[str, Any] = {}
        if act == "pin":
            values["quota"] = whole(fields.get("quota", ""), "selections")
        if act == "boost":
            values["boost"] = number_in(fields.get("boost", ""), "boost")
        hops = steer_bulk(
            run=run,
            act=act,
            chosen=NodeFilter.of(fields, request.POST.getlist("state")),
            expected=expected,
            seen=fields.get("seen", ""),
            user=request.user,
            key=fields.get("key", "")[:64] or None,
            **values,
        )
    except ActionRefused as error:
        return _page(request, run, error)
    send(hops)
    said = act_text(VERB, {"verb": act, "count": expected, **values})
    messages.success(request, f"{said}.")
    return redirect("run-detail", run_id=run.pk)


def _page(request: SiteRequest, run: Run, error: ActionRefused | None = None) -> HttpResponse:
    """As of now: what a refused form had chosen is chosen again, and counted anew."""
    given = request.POST if request.method == "POST" else request.GET
    context: dict[str, Any] = {"run": run, "kinds": KINDS, "refused": str(error) if error else ""}
    if isinstance(error, FieldsRefused):
        context["errors"] = error.fields
    status = 200 if error is None else 409
    fields = {name: str(value) for name, value in given.items() if name != "told"}
    try:
        chosen = NodeFilter.of(fields, given.getlist("state"))
    except FieldsRefused as wrong:
        status = 409 if error else 422
        context |= {"refused": context["refused"] or str(wrong), "errors": wrong.fields, "typed_fields": fields}
    else:
        context |= _counted(run, chosen)
    context |= {name: fields.get(name, "") for name in ("under", "below", "quota", "boost")}
    context["steerable"] = not run.ended and run.state != Run.State.STOPPING
    return render(request, "search/run_bulk.html", context, status=status)


def _counted(run: Run, chosen: NodeFilter) -> dict[str, Any]:
    desk = Desk(run, None)
    rows = chosen.matching(desk.rows)
    batches = [batch_of(desk, act, chosen) for act in ACTS]
    best = best_number(desk.rows)
    return {
        "chosen": chosen,
        "told": max((row.told_order or 0 for row in desk.rows), default=0),
        "in_flight": sum(row.told_order is None and row.state != "cancelled" for row in desk.rows),
        "states": [
            (words, count, chosen.toggled(name), name in chosen.states, name)
            for name, words, count in chosen.counts(desk.rows)
        ],
        "matched": len(rows),
        "examples": [(row, look_of_row(row), STATES[look_of_row(row)], _measure(row)) for row in rows[:EXAMPLES]],
        "more": max(0, len(rows) - EXAMPLES),
        "batches": batches,
        "typed_above": TYPED,
        "best_among": best is not None and any(row.number == best for row in rows),
    }


def _measure(row: NodeRow) -> Measure | None:
    return Measure(row.speedup, row.low, row.high, row.n, Basis(row.basis)) if row.speedup and row.basis else None
