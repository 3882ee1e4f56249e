"""Failures: clusters over all searches or of one, a cluster's own page, and what a reviewer decides about it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from adaexplore_site.access import Role, role_required
from adaexplore_site.audit import ActionRefused
from adaexplore_site.models import Action
from adaexplore_site.requests import SiteRequest, form_key
from memory.cluster_rows import SORTS, Chosen, cluster_table
from memory.models import FailureCluster, Rule
from memory.scope_form import scope_asked
from memory.services import clusters as services
from memory.services.proposing import cluster_propose
from search.failure_page import attempts_of, choices_of, cluster_context
from search.models import Run


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
    return render(request, f"memory/failure_list.html{part}", context)


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
    return render(request, "memory/failure_cluster.html", context, status=status)


def _people() -> list[User]:
    return list(User.objects.filter(is_active=True).order_by("username")[:200])


@role_required(Role.REVIEWER)
@require_POST
def failure_act(request: SiteRequest, key: str) -> HttpResponse:
    """Do the act named `act`. A redirect with a message; 409 with the reason when it is not possible."""
    cluster = _cluster(key)
    act = _ACTS.get(request.POST.get("act", ""))
    try:
        if act is None:
            raise ActionRefused("There is no such act. Reload the page and use its buttons.")
        done = act(request, cluster, {"user": request.user, "key": form_key(request)})
    except ActionRefused as error:
        typed = request.POST if request.POST.get("act") == "propose" else None
        return _page(request, _cluster(key), status=409, refused=str(error), typed=typed)
    messages.success(request, done)
    return redirect(f"{reverse('failure-cluster', args=[key])}")


Common = dict[str, Any]


def _assign(request: SiteRequest, cluster: FailureCluster, common: Common) -> str:
    name = request.POST.get("assignee", "")
    person = User.objects.filter(username=name, is_active=True).first() if name else None
    if name and person is None:
        raise ActionRefused(f"There is nobody called {name[:60]!r} here. Choose one of the list.")
    services.cluster_assign(cluster=cluster, assignee=person, **common)
    return f"Assigned to {person.get_username()}." if person else "Assigned to nobody."


def _mute(request: SiteRequest, cluster: FailureCluster, common: Common) -> str:
    services.cluster_mute(cluster=cluster, **common)
    return "Muted until it has more than twice the failures of now."


def _unmute(request: SiteRequest, cluster: FailureCluster, common: Common) -> str:
    services.cluster_unmute(cluster=cluster, **common)
    return "It is listed again."


def _merge(request: SiteRequest, cluster: FailureCluster, common: Common) -> str:
    key = request.POST.get("into", "").strip()[:12]
    into = FailureCluster.objects.filter(key=key).first()
    if into is None:
        raise ActionRefused(f"There is no cluster {key!r}. Give the twelve letters and digits of one.")
    services.cluster_merge(cluster=cluster, into=into, **common)
    return f"Its failures are shown under “{into.title}” now."


def _split(request: SiteRequest, cluster: FailureCluster, common: Common) -> str:
    part = FailureCluster.objects.filter(key=request.POST.get("part", "")[:12], merged_into=cluster).first()
    services.cluster_split(cluster=part or cluster, **common)
    return "It stands by itself again."


def _undo(request: SiteRequest, cluster: FailureCluster, common: Common) -> str:
    text = request.POST.get("action", "")
    known = text.isascii() and text.isdigit() and len(text) < 18
    action = Action.objects.filter(pk=int(text), object_type=services.OBJECT).first() if known else None
    if action is None:
        raise ActionRefused("There is no such act. Reload the page and use its buttons.")
    undo = services.cluster_undo(action=action, **common)
    if action.verb != services.PROPOSE:
        return "Undone."
    rule = f"rule {undo.after['rule']}"
    return (
        f"Undone: {rule} is withdrawn." if undo.after["withdrawn"] else f"Undone: {rule} has its sightings of before."
    )


def _propose(request: SiteRequest, cluster: FailureCluster, common: Common) -> str:
    scope = scope_asked(request.POST) if "triton" in request.POST else None
    rule = cluster_propose(cluster=cluster, claim=request.POST.get("claim", "")[:2000], scope=scope, **common)
    count = rule.sightings.count()
    waits = "waits for review" if rule.state == Rule.State.PROPOSED else f"stays {rule.state}"
    return f"Rule {rule.pk} has {count} sighting{'' if count == 1 else 's'} now and {waits}."


_ACTS: dict[str, Callable[[SiteRequest, FailureCluster, Common], str]] = {
    "assign": _assign,
    "mute": _mute,
    "unmute": _unmute,
    "merge": _merge,
    "split": _split,
    "undo": _undo,
    "propose": _propose,
}
