"""Pages of failures: clusters over all searches or of one, and the page of a cluster with its actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from adaexplore_site.actions import registry
from adaexplore_site.actions.views import chosen, done, submit
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.requests import SiteRequest
from judge.problems.models import Problem
from memory.failures.actions import KIND, ClusterEntries
from memory.failures.models import Failure, FailureCluster
from memory.failures.proposing import fit_failures, suggested, why_unfit
from memory.failures.queries import SORTS, Chosen, cluster_row, cluster_table, members
from memory.patterns.messages import cause_of
from memory.patterns.table import BY_CODE
from memory.rules.queries import HistoryRow
from search.records.models import Node, Run

MOST_NODES = 30
MOST_EXAMPLES = 5
MOST_CHOICES = 100
MOST_ACTIONS = 50


def attempts_of(chosen: Chosen) -> int:
    """Completed nodes, roots left out, of the searches and problem chosen."""
    nodes = Node.objects.completed()
    if chosen.run is not None:
        nodes = nodes.filter(run_id=chosen.run)
    if chosen.problem is not None:
        nodes = nodes.filter(run__problem_id=chosen.problem)
    return nodes.count()


def choices_of(chosen: Chosen, run: Run | None) -> dict[str, Any]:
    """Stages, and over all searches also the searches and problems, that have failures."""
    mine = Failure.objects.filter(run_id=run.pk) if run is not None else Failure.objects.all()
    stages = list(mine.order_by("stage").values_list("stage", flat=True).distinct())
    if run is not None:
        return {"stages": stages}
    runs = list(Failure.objects.order_by("-run_id").values_list("run_id", flat=True).distinct()[:MOST_CHOICES])
    problems = list(Failure.objects.order_by("problem_id").values_list("problem_id", flat=True).distinct())
    return {
        "stages": stages,
        "runs": Run.objects.filter(pk__in=[*runs, chosen.run]).select_related("problem").order_by("-pk"),
        "problems": Problem.objects.filter(pk__in=problems[:MOST_CHOICES]).only("pk", "title").order_by("title"),
    }


def cluster_context(cluster: FailureCluster) -> dict[str, Any]:
    """Template context of a cluster's page."""
    family = members(cluster)
    failures = Failure.objects.filter(cluster_id__in=family).select_related("node", "run__problem")
    newest = list(failures.defer("node__source", "node__sketch").order_by("-pk")[:MOST_NODES])
    wordings = {failure.message: failure for failure in reversed(newest)}  # the newest failure of each message
    fit = fit_failures(cluster)
    return {
        "cluster": cluster,
        "row": cluster_row(cluster),
        "known": BY_CODE.get(cluster.pattern),
        "newest": [(failure, cause_of(failure.message)) for failure in newest],
        "examples": sorted(wordings.values(), key=lambda failure: -failure.pk)[:MOST_EXAMPLES],
        "fit": len(fit),
        "why_unfit": "" if fit else why_unfit(cluster),
        "lesson": suggested(fit),
        "parts": FailureCluster.objects.filter(merged_into=cluster).order_by("key"),
        "history": _history(family),
        "others": FailureCluster.objects.filter(merged_into=None).exclude(pk=cluster.pk).order_by("text", "key")[:200],
        "people": User.objects.filter(is_active=True).order_by("username")[:200],
    }


def _history(family: list[int]) -> list[HistoryRow]:
    """What was done to a cluster, whose id comes first, and to those merged into it."""
    entries = AuditEntry.objects.filter(object_type=KIND.name, object_id__in=[str(pk) for pk in family])
    rows = list(entries.select_related("actor")[:MOST_ACTIONS])
    loaded = KIND.load(rows)
    return [_row(row, loaded, family[0]) for row in rows]


def _row(row: AuditEntry, loaded: ClusterEntries, own: int) -> HistoryRow:
    verb = registry.reader(row)
    text = verb.describe(row, loaded)
    if int(row.object_id) != own:
        text = f"{loaded.title(int(row.object_id))}: {text}"
    return HistoryRow(row, text, verb.standing(row, loaded), row.pk in loaded.undone)


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
    return _page(request, _cluster(key))


def _cluster(key: str) -> FailureCluster:
    return get_object_or_404(FailureCluster.objects.select_related("merged_into", "assignee"), key=key)


def _page(
    request: SiteRequest,
    cluster: FailureCluster,
    *,
    status: int = 200,
    error: ActionRefused | None = None,
    typed: Mapping[str, str] | None = None,
) -> HttpResponse:
    context = {**cluster_context(cluster), "typed": typed}
    if error is not None:
        context |= {"message": str(error), "see": error.see}
    return render(request, "failures/failure_cluster.html", context, status=status)


@require_POST
def failure_act(request: SiteRequest, key: str) -> HttpResponseBase:
    """Do the action that the field `act` names. A refusal shows the page with the reason and what was typed."""
    action = chosen(request, "act", {name: f"cluster.{name}" for name in ACTS})
    try:
        return done(request, action, submit(request, action, {"key": key}))
    except ActionRefused as error:
        typed = request.POST if "claim" in request.POST else None
        return _page(request, _cluster(key), status=error.status, error=error, typed=typed)
