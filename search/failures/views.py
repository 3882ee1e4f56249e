"""Failures: clusters over all searches or of one, a cluster's own page, and what a reviewer decides about it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from adaexplore_site.actions.views import chosen, done, submit
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.requests import SiteRequest
from memory.clusters.queries import SORTS, Chosen, cluster_table
from memory.failures.models import FailureCluster
from search.failures.page import attempts_of, choices_of, cluster_context
from search.records.models import Run

ACTS = ("assign", "mute", "unmute", "merge", "split", "undo", "propose")


@never_cache
@vary_on_headers("HX-Request")
@require_safe
def failure_list(request: SiteRequest) -> HttpResponse:
    """Clusters over all searches. Query: `run`, `stage`, `problem`, `sort`, `muted`."""
    return _list(request, _chosen(request, _number(request, "run")), None)


@never_cache
@vary_on_headers("HX-Request")
@require_safe
def run_failures(request: SiteRequest, run_id: int) -> HttpResponse:
    """Clusters of one search. Query: `stage`, `sort`, `muted`."""
    run = get_object_or_404(Run.objects.select_related("problem", "device"), pk=run_id)
    return _list(request, _chosen(request, run.pk), run)


def _list(request: SiteRequest, chosen: Chosen, run: Run | None) -> HttpResponse:
    context: dict[str, Any] = {
        "run": run,
        "chosen": chosen,
        "table": cluster_table(chosen),
        "attempts": attempts_of(chosen),
        "sorts": [(label, name == chosen.sort, _query(chosen, run, sort=name)) for name, label in SORTS.items()],
        "muted_link": _query(chosen, run, muted="" if chosen.muted else "1"),
        "filtered": bool(chosen.stage or chosen.problem or (chosen.run and run is None)),
        **choices_of(chosen, run),
    }
    part = "#clusters" if request.htmx else ""
    return render(request, f"failures/failure_list.html{part}", context)


def _chosen(request: SiteRequest, run: int | None) -> Chosen:
    sort = request.GET.get("sort", "count")
    return Chosen(
        run=run,
        stage=request.GET.get("stage", "")[:20],
        problem=_number(request, "problem"),
        muted=request.GET.get("muted") == "1",
        sort=sort if sort in SORTS else "count",
    )


def _number(request: SiteRequest, name: str) -> int | None:
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else None


def _query(chosen: Chosen, run: Run | None, **changes: str) -> str:
    """The page's own address with some of its choices changed."""
    now = {
        "run": chosen.run if run is None else None,
        "stage": chosen.stage,
        "problem": chosen.problem,
        "sort": chosen.sort if chosen.sort != "count" else "",
        "muted": "1" if chosen.muted else "",
    }
    return "?" + urlencode({name: value for name, value in (now | changes).items() if value})


@never_cache
@require_safe
def failure_cluster(request: SiteRequest, key: str) -> HttpResponse:
    """One cluster: figures, nodes, examples, what people decided, and the forms to decide."""
    cluster = _cluster(key)
    return _page(request, cluster)


def _cluster(key: str) -> FailureCluster:
    return get_object_or_404(FailureCluster.objects.select_related("merged_into", "assignee"), key=key)


def _page(
    request: SiteRequest,
    cluster: FailureCluster,
    *,
    status: int = 200,
    refused: str = "",
    typed: Mapping[str, str] | None = None,
) -> HttpResponse:
    context = cluster_context(cluster, key=lambda: secrets.token_urlsafe(16))
    context |= {"refused": refused, "typed": typed, "people": _people()}
    return render(request, "failures/failure_cluster.html", context, status=status)


def _people() -> list[User]:
    return list(User.objects.filter(is_active=True).order_by("username")[:200])


@require_POST
def failure_act(request: SiteRequest, key: str) -> HttpResponseBase:
    """Do the action that the field `act` names. A refusal shows the page with the reason and what was typed."""
    action = chosen(request, "act", {name: f"cluster.{name}" for name in ACTS})
    try:
        return done(request, action, submit(request, action, {"key": key}))
    except ActionRefused as error:
        typed = request.POST if "claim" in request.POST else None
        return _page(request, _cluster(key), status=error.status, refused=str(error), typed=typed)
