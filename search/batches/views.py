"""Campaigns and adapt runs: their lists, new ones, progress and results."""

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
from memory.adapt.models import AdaptRun, Batch
from memory.rules.queries import RuleFilter, rules_filtered
from search import proposers
from search.batches.adapt_budget import spent_of
from search.batches.adapt_results import adapt_csv, adapt_document, adapt_rows, effect_read, learned_by, task_rows
from search.batches.adapts import ADAPTS, CONTROL_STEPS
from search.batches.campaigns import (
    CAMPAIGNS,
    MAX_PROBLEMS,
    Sorting,
    campaign_report,
    campaign_row,
    campaign_rows,
    entry_rows,
)
from search.batches.engine import Source
from search.batches.forms import STEPS_EACH, AdaptForm, CampaignForm, Filter, by_slugs, filtered, in_order, levels
from search.batches.models import Campaign
from search.reports.page import report_context
from search.reports.values import BEST, RULES
from search.reports.views import FORMS, report_file

PAGE = 100
MOST_ROWS = 200
LEFT_OUT = (Problem.State.REFUSED, Problem.State.DEGENERATE)  # one cannot start, the other counts in no figure
POSSIBLE = {Batch.State.RUNNING: ("pause", "stop"), Batch.State.PAUSED: ("resume", "stop")}


def _newest(source: Source) -> list[Any]:
    return list(source.rows.objects.select_related("device").order_by("-id")[:PAGE])


def _controls(source: Source, batch: Batch) -> list[dict[str, str]]:
    """The actions that are possible now, each with a key so that a repeated submit is one action."""
    return [
        {
            "name": name,
            "label": name.capitalize(),
            "url": reverse(f"{source.name}-{name}", args=[batch.pk]),
            "key": secrets.token_urlsafe(16),
        }
        for name in POSSIBLE.get(Batch.State(batch.state), ())
    ]


def _started(request: SiteRequest, source: Source) -> HttpResponseBase | tuple[forms.Form, int]:
    """The next page, or the form with its errors and the status."""
    action = registry.action(f"{source.name}.start")
    try:
        return done(request, action, submit(request, action, {}))
    except ActionRefused as error:
        return form_again(request, action, {}, error)


@never_cache
@require_safe
def campaign_list(request: SiteRequest) -> HttpResponse:
    """Every campaign with its progress, newest first."""
    return render(request, "batches/campaign_list.html", {"rows": campaign_rows(_newest(CAMPAIGNS))})


@never_cache
@require_safe
def adapt_list(request: SiteRequest) -> HttpResponse:
    """Every adapt run with its progress, newest first."""
    return render(request, "batches/adapt_list.html", {"rows": adapt_rows(_newest(ADAPTS))})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def campaign_new(request: SiteRequest) -> HttpResponseBase:
    """Choose problems by a filter, select them, start. A POST that is refused is 422 or 409 with the reason."""
    form: forms.Form
    chosen, status = Filter(), 200
    if request.method == "POST":
        answer = _started(request, CAMPAIGNS)
        if isinstance(answer, HttpResponseBase):
            return answer
        form, status = answer
        sent, _ = by_slugs([slug[:80] for slug in request.POST.getlist("problem")][:MAX_PROBLEMS])
        problems = sent or filtered(chosen)[:MAX_PROBLEMS]
        selected = {problem.slug for problem in sent}
    else:
        chosen = Filter(**{name: request.GET.get(name, "").strip()[:80] for name in ("level", "state", "origin", "q")})
        problems = filtered(chosen)[:MAX_PROBLEMS]
        steps = STEPS_EACH * max(len(problems), 1)
        form = CampaignForm(initial={"steps": steps, "proposer": proposers.default_name()})
        selected = {problem.slug for problem in problems if problem.state not in LEFT_OUT}
    context = {
        "form": form,
        "problems": [(problem, problem.slug in selected) for problem in problems],
        "chosen": chosen,
        "levels": levels(),
        "states": Problem.State.choices,
        "origins": Problem.Origin.choices,
        "key": secrets.token_urlsafe(16),
    }
    return render(request, "batches/campaign_new.html", context, status=status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def adapt_new(request: SiteRequest) -> HttpResponseBase:
    """What all tasks share. A POST that is refused is 422 or 409 with the reason."""
    form: forms.Form = AdaptForm(initial={"proposer": proposers.default_name()})
    status = 200
    if request.method == "POST":
        answer = _started(request, ADAPTS)
        if isinstance(answer, HttpResponseBase):
            return answer
        form, status = answer
    context = {"form": form, "key": secrets.token_urlsafe(16)}
    return render(request, "batches/adapt_new.html", context, status=status)


@never_cache
@vary_on_headers("HX-Request")
@require_safe
def campaign_detail(request: SiteRequest, campaign_id: int) -> HttpResponse:
    """Progress, every problem, the report; the progress is polled while it runs.

    Query: `sort` (see `Sorting`), `rule`, `as` a file.
    """
    campaign = get_object_or_404(Campaign.objects.select_related("device", "owner"), pk=campaign_id)
    rule = request.GET.get("rule", BEST)
    sorting = Sorting.of(request.GET.get("sort", ""))
    links = sorting.links(campaign)
    context: dict[str, Any] = {
        "batch": campaign,
        "row": campaign_row(campaign),
        "entries": sorting.rows(entry_rows(campaign)),
        "sorting": sorting,
        "sorts": links,
        "directions": {link.label: link.direction for link in links},
    }
    if request.htmx:
        return render(request, "batches/campaign_detail.html#progress", context)
    made = campaign_report(campaign, rule=rule if rule in RULES else BEST)
    if request.GET.get("as") in FORMS:
        return report_file(made, request.GET["as"], f"campaign-{campaign.pk}")
    own = reverse("campaign-detail", args=[campaign.pk])
    context |= {
        "files": [(name.upper(), f"{own}?as={name}") for name in FORMS],
        "controls": _controls(CAMPAIGNS, campaign),
        **report_context(made),
    }
    return render(request, "batches/campaign_detail.html", context)


@never_cache
@vary_on_headers("HX-Request")
@require_safe
def adapt_detail(request: SiteRequest, adapt_id: int) -> HttpResponse:
    """Progress, lessons, effect and tasks; polled while it runs. Query: `all` tasks."""
    adapt = get_object_or_404(AdaptRun.objects.select_related("device", "owner", "transfer_of"), pk=adapt_id)
    tasks = task_rows(adapt)
    effect = effect_read(adapt, tasks)
    shown = tasks if "all" in request.GET else tasks[-MOST_ROWS:]
    context: dict[str, Any] = {
        "batch": adapt,
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
    context |= {
        "to_review": rules_filtered(RuleFilter(adapt=adapt.pk), timezone.now()).count(),
        "files": [(form.upper(), reverse("adapt-file", args=[adapt.pk, form])) for form in ("csv", "json")],
        "controls": _controls(ADAPTS, adapt),
        "transfers": adapt_rows(list(adapt.transfers.select_related("device"))),
    }
    if adapt.transfer_of_id is None:
        context |= {"problems": _real_problems(), "key": secrets.token_urlsafe(16), "control": CONTROL_STEPS}
    return render(request, "batches/adapt_detail.html", context)


def _real_problems() -> list[Problem]:
    """Problems that were not composed and taught nothing, in the order a benchmark counts them."""
    rows = Problem.objects.filter(origin__in=(Problem.Origin.IMPORT, Problem.Origin.UPLOAD)).exclude(state__in=LEFT_OUT)
    return in_order(rows.defer("source", "description", "admission"))


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
