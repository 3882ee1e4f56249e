"""Campaigns: the list, a new one, its progress and report."""

from __future__ import annotations

import secrets
from typing import Any

from django import forms
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe
from django.views.decorators.vary import vary_on_headers

from adaexplore_site.actions import registry
from adaexplore_site.actions.views import done, form_again, submit
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.requests import SiteRequest
from judge.problems.models import Problem
from search import proposers
from search.batches import campaigns as services
from search.batches.campaign_form import STEPS_EACH, campaign_form
from search.batches.campaign_problems import Filter, by_slugs, filtered, levels
from search.batches.campaign_rows import campaign_report, campaign_row, campaign_rows, entry_rows
from search.batches.campaign_sort import Sorting
from search.batches.models import Campaign
from search.reports.page import report_context
from search.reports.values import BEST, RULES
from search.reports.views import FORMS, report_file

PAGE = 100


@never_cache
@require_safe
def campaign_list(request: SiteRequest) -> HttpResponse:
    """Every campaign with its progress, newest first."""
    rows = campaign_rows(list(Campaign.objects.select_related("device", "owner").order_by("-id")[:PAGE]))
    return render(request, "batches/campaign_list.html", {"rows": rows})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def campaign_new(request: SiteRequest) -> HttpResponseBase:
    """Choose problems by a filter, tick them off, start. A POST that cannot be is 422 or 409 with the reason."""
    if request.method == "POST":
        return _start(request)
    chosen = Filter(**{name: request.GET.get(name, "").strip()[:80] for name in ("level", "state", "origin", "q")})
    problems = filtered(chosen)[: services.MAX_PROBLEMS]
    form = campaign_form(initial={"steps": STEPS_EACH * max(len(problems), 1), "proposer": proposers.default_name()})
    unwanted = (Problem.State.REFUSED, Problem.State.DEGENERATE)  # one cannot start, the other counts in no figure
    ticked = {problem.slug for problem in problems if problem.state not in unwanted}
    return render(request, "batches/campaign_new.html", _new_context(form, problems, ticked, chosen))


def _start(request: SiteRequest) -> HttpResponseBase:
    action = registry.action("campaign.start")
    try:
        return done(request, action, submit(request, action, {}))
    except ActionRefused as error:
        form, status = form_again(request, action, {}, error)
    chosen, _ = by_slugs([slug[:80] for slug in request.POST.getlist("problem")][: services.MAX_PROBLEMS])
    shown = chosen or filtered(Filter())[: services.MAX_PROBLEMS]
    context = _new_context(form, shown, {problem.slug for problem in chosen}, Filter())
    return render(request, "batches/campaign_new.html", context, status=status)


def _new_context(form: forms.Form, problems: list[Problem], ticked: set[str], chosen: Filter) -> dict[str, Any]:
    return {
        "form": form,
        "problems": [(problem, problem.slug in ticked) for problem in problems],
        "chosen": chosen,
        "levels": levels(),
        "states": Problem.State.choices,
        "origins": Problem.Origin.choices,
        "key": secrets.token_urlsafe(16),
    }


@never_cache
@vary_on_headers("HX-Request")
@require_safe
def campaign_detail(request: SiteRequest, campaign_id: int) -> HttpResponse:
    """Progress, every problem, the report block; the progress asks again while it runs.

    Query: `sort` (see `campaign_sort`), `rule`, `as` a file.
    """
    campaign = get_object_or_404(Campaign.objects.select_related("device", "owner"), pk=campaign_id)
    rule = request.GET.get("rule", BEST)
    sorting = Sorting(request.GET.get("sort", ""))
    context: dict[str, Any] = {
        "campaign": campaign,
        "row": campaign_row(campaign),
        "entries": sorting.rows(entry_rows(campaign)),
        "sorting": sorting,
        "sorts": sorting.links(campaign),
        "directions": {link.name: link.direction for link in sorting.links(campaign)},
    }
    if request.htmx:
        return render(request, "batches/campaign_detail.html#progress", context)
    made = campaign_report(campaign, rule=rule if rule in RULES else BEST)
    if request.GET.get("as") in FORMS:
        return report_file(made, request.GET["as"], f"campaign-{campaign.pk}")
    own = reverse("campaign-detail", args=[campaign.pk])
    context |= {
        "files": [(name.upper(), f"{own}?as={name}") for name in FORMS],
        "controls": _controls(campaign),
        **report_context(made),
    }
    return render(request, "batches/campaign_detail.html", context)


def _controls(campaign: Campaign) -> list[dict[str, str]]:
    """The actions that are possible now, each with a key so that a repeated submit is one action."""
    acts = {Campaign.State.RUNNING: ("pause", "stop"), Campaign.State.PAUSED: ("resume", "stop")}
    return [
        {
            "name": name,
            "label": name.capitalize(),
            "url": reverse(f"campaign-{name}", args=[campaign.pk]),
            "key": secrets.token_urlsafe(16),
        }
        for name in acts.get(Campaign.State(campaign.state), ())
    ]
