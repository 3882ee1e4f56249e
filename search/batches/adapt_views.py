"""Adapt runs: the list, a new one, its progress, lessons and effect."""

from __future__ import annotations

import json
import secrets
from typing import Any

from django import forms
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe
from django.views.decorators.vary import vary_on_headers

from adaexplore_site.actions import registry
from adaexplore_site.actions.views import done, form_again, submit
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.downloads import attachment
from adaexplore_site.core.requests import SiteRequest
from judge.problems.models import Problem
from memory.adapt.effect import curve_of
from memory.adapt.models import AdaptRun
from memory.review.queries import RuleFilter, rules_filtered
from search import proposers
from search.batches import adapt_runs as services
from search.batches.adapt_document import adapt_csv, adapt_document
from search.batches.adapt_form import adapt_form
from search.batches.adapt_rows import adapt_rows, effect_read, learned_by, task_rows
from search.batches.adapt_spending import spent_of
from search.batches.campaign_problems import in_order

PAGE = 100
MOST_ROWS = 200
REAL = (Problem.Origin.IMPORT, Problem.Origin.UPLOAD)


@never_cache
@require_safe
def adapt_list(request: SiteRequest) -> HttpResponse:
    """Every adapt run with its progress, newest first."""
    adapts = AdaptRun.objects.select_related("device", "owner", "transfer_of").order_by("-id")[:PAGE]
    return render(request, "batches/adapt_list.html", {"rows": adapt_rows(list(adapts))})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def adapt_new(request: SiteRequest) -> HttpResponseBase:
    """What all tasks share. A POST that cannot be is 422 or 409 with the reason."""
    form: forms.Form = adapt_form(initial={"proposer": proposers.default_name()})
    status = 200
    if request.method == "POST":
        action = registry.action("adapt.start")
        try:
            return done(request, action, submit(request, action, {}))
        except ActionRefused as error:
            form, status = form_again(request, action, {}, error)
    context = {"form": form, "key": secrets.token_urlsafe(16)}
    return render(request, "batches/adapt_new.html", context, status=status)


@never_cache
@vary_on_headers("HX-Request")
@require_safe
def adapt_detail(request: SiteRequest, adapt_id: int) -> HttpResponse:
    """Progress, lessons, effect and tasks; it asks again while it runs. Query: `all` tasks."""
    adapt = get_object_or_404(AdaptRun.objects.select_related("device", "owner", "transfer_of"), pk=adapt_id)
    tasks = task_rows(adapt)
    effect = effect_read(adapt, tasks)
    shown = tasks if "all" in request.GET else tasks[-MOST_ROWS:]
    context: dict[str, Any] = {
        "adapt": adapt,
        "row": adapt_rows([adapt])[0],
        "tasks": shown,
        "hidden": len(tasks) - len(shown),
        "effect": effect,
        "curve": curve_of(effect),
        "learned": learned_by(adapt),
        "spent": spent_of(adapt),
    }
    if request.htmx:
        return render(request, "batches/adapt_detail.html#progress", context)
    context["to_review"] = rules_filtered(RuleFilter(adapt=adapt.pk), timezone.now()).count()
    context |= {"controls": _controls(adapt), "transfers": adapt_rows(list(adapt.transfers.select_related("device")))}
    if adapt.transfer_of_id is None:
        context |= {"problems": _real_problems(), "key": secrets.token_urlsafe(16), "control": services.CONTROL_STEPS}
    return render(request, "batches/adapt_detail.html", context)


def _real_problems() -> list[Problem]:
    """What nobody composed and nothing was learned on, in the order a benchmark counts it."""
    rows = Problem.objects.filter(origin__in=REAL).exclude(state__in=(Problem.State.REFUSED, Problem.State.DEGENERATE))
    return in_order(rows.defer("source", "description", "admission"))


def _controls(adapt: AdaptRun) -> list[dict[str, str]]:
    """The actions that are possible now, each with a key so that a repeated submit is one action."""
    acts = {AdaptRun.State.RUNNING: ("pause", "stop"), AdaptRun.State.PAUSED: ("resume", "stop")}
    return [
        {
            "name": name,
            "label": name.capitalize(),
            "url": reverse(f"adapt-{name}", args=[adapt.pk]),
            "key": secrets.token_urlsafe(16),
        }
        for name in acts.get(AdaptRun.State(adapt.state), ())
    ]


@never_cache
@require_safe
def adapt_file(request: SiteRequest, adapt_id: int, form: str) -> HttpResponse:
    """Its data as a download: `form` is csv (a line per task) or json (everything)."""
    adapt = get_object_or_404(AdaptRun.objects.select_related("device"), pk=adapt_id)
    document = adapt_document(adapt)
    if form == "csv":
        return attachment(f"adapt-{adapt.pk}.csv", adapt_csv(document).encode(), "text/csv; charset=utf-8")
    if form == "json":
        return attachment(f"adapt-{adapt.pk}.json", json.dumps(document, indent=1).encode(), "application/json")
    raise Http404("There are csv and json.")
