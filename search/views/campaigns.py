"""Campaigns: the list, a new one, its progress and report, and the acts on it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from adaexplore_site.access import Role, require, role_required
from adaexplore_site.audit import ActionRefused
from adaexplore_site.gate import question
from adaexplore_site.requests import SiteRequest, form_key
from judge.models import Problem
from judge.selectors import judging_devices
from search import proposers
from search.campaign_form import STEPS_EACH, CampaignForm
from search.campaign_models import Campaign
from search.campaign_problems import Filter, by_slugs, filtered, levels
from search.campaign_rows import campaign_report, campaign_row, campaign_rows, entry_rows
from search.campaign_sort import Sorting
from search.report.page import report_context
from search.report.values import BEST, RULES
from search.services import campaigns as services
from search.services.campaign_advance import campaign_advance
from search.tasks import send
from search.views.reports import FORMS, report_file

PAGE = 100


@never_cache
@require_safe
def campaign_list(request: SiteRequest) -> HttpResponse:
    """Every campaign with its progress, newest first."""
    rows = campaign_rows(list(Campaign.objects.select_related("device", "owner").order_by("-id")[:PAGE]))
    return render(request, "search/campaign_list.html", {"rows": rows})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def campaign_new(request: SiteRequest) -> HttpResponse:
    """Choose problems by a filter, tick them off, start. A POST that cannot be is 422 or 409 with the reason."""
    if request.method == "POST":
        require(request.user, Role.OPERATOR)
        return _start(request)
    chosen = Filter(**{name: request.GET.get(name, "").strip()[:80] for name in ("level", "state", "origin", "q")})
    problems = filtered(chosen)[: services.MAX_PROBLEMS]
    form = _form(initial={"steps": STEPS_EACH * max(len(problems), 1), "proposer": proposers.default_name()})
    unwanted = (Problem.State.REFUSED, Problem.State.DEGENERATE)  # one cannot start, the other counts in no figure
    ticked = {problem.slug for problem in problems if problem.state not in unwanted}
    return render(request, "search/campaign_new.html", _new_context(form, problems, ticked, chosen))


def _form(*args: Any, **kwargs: Any) -> CampaignForm:
    return CampaignForm(*args, devices=list(judging_devices()), choices=proposers.available(), **kwargs)


def _new_context(form: CampaignForm, problems: list[Problem], ticked: set[str], chosen: Filter) -> dict[str, Any]:
    return {
        "form": form,
        "problems": [(problem, problem.slug in ticked) for problem in problems],
        "chosen": chosen,
        "levels": levels(),
        "states": Problem.State.choices,
        "origins": Problem.Origin.choices,
        "key": secrets.token_urlsafe(16),
    }


def _start(request: SiteRequest) -> HttpResponse:
    slugs = [slug[:80] for slug in request.POST.getlist("problem")][: services.MAX_PROBLEMS + 1]
    problems, missing = by_slugs(slugs)
    form = _form(request.POST)
    if missing:
        form.add_error(None, f"There is no problem {missing[0]!r} any more. Choose again.")
    status = 422
    if form.is_valid():
        try:
            campaign = _campaign(request, form, problems)
        except ActionRefused as error:
            form.add_error(None, str(error))
            status = 409
        else:
            send(campaign_advance(campaign_id=campaign.pk))
            return redirect("campaign-detail", campaign_id=campaign.pk)
    shown = problems or filtered(Filter())[: services.MAX_PROBLEMS]
    context = _new_context(form, shown, {problem.slug for problem in problems}, Filter())
    return render(request, "search/campaign_new.html", context, status=status)


def _campaign(request: SiteRequest, form: CampaignForm, problems: list[Problem]) -> Campaign:
    data = form.cleaned_data
    return services.campaign_start(
        problems=problems,
        device=data["device"],
        proposer=data["proposer"],
        options=form.options(),
        steps=data["steps"],
        title=data["title"],
        seed=data["seed"],
        seeds=data["seeds"],
        params=data["preset"].params.to_json(),
        at_once=data["at_once"],
        concurrency=data["concurrency"],
        memory=form.memory(),
        user=request.user,
        key=form_key(request),
    )


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
        return render(request, "search/campaign_detail.html#progress", context)
    made = campaign_report(campaign, rule=rule if rule in RULES else BEST)
    if request.GET.get("as") in FORMS:
        return report_file(made, request.GET["as"], f"campaign-{campaign.pk}")
    own = reverse("campaign-detail", args=[campaign.pk])
    context |= {
        "files": [(name.upper(), f"{own}?as={name}") for name in FORMS],
        "controls": _controls(campaign),
        **report_context(made),
    }
    return render(request, "search/campaign_detail.html", context)


def _controls(campaign: Campaign) -> list[dict[str, str]]:
    """The acts that are possible now, each with a key of its own so that a repeated submit is one act."""
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


@role_required(Role.OPERATOR)
@require_POST
def campaign_pause(request: SiteRequest, campaign_id: int) -> HttpResponse:
    """Start nothing more; pause what runs."""
    return _act(request, campaign_id, services.campaign_pause, "Paused. Steps in flight end first.")


@role_required(Role.OPERATOR)
@require_POST
def campaign_resume(request: SiteRequest, campaign_id: int) -> HttpResponse:
    """Go on, with what the pause had paused."""
    return _act(request, campaign_id, services.campaign_resume, "Resumed.", go_on=True)


@role_required(Role.OPERATOR)
@require_POST
def campaign_stop(request: SiteRequest, campaign_id: int) -> HttpResponse:
    """End it and its searches, once the person is sure: nothing starts the rest again."""
    back = reverse("campaign-detail", args=[campaign_id])
    what = (
        "Its searches are stopped, and no other one starts. "
        "What was found is kept. A stop stays; a pause can be undone."
    )
    asked = question(request, ask="Stop this campaign?", what=what, yes="Stop the campaign", back=back)
    return asked or _act(request, campaign_id, services.campaign_stop, "Stopping. What was found is kept.")


def _act(
    request: SiteRequest, campaign_id: int, act: Callable[..., Campaign], done: str, *, go_on: bool = False
) -> HttpResponse:
    """Do one act. A redirect with a message; 409 with the reason when it is not possible."""
    campaign = get_object_or_404(Campaign, pk=campaign_id)
    try:
        campaign = act(campaign=campaign, user=request.user, key=form_key(request))
    except ActionRefused as error:
        context = {"message": str(error), "campaign": campaign}
        return render(request, "search/campaign_refused.html", context, status=409)
    if go_on:
        send(services.campaign_hops(campaign))
        send(campaign_advance(campaign_id=campaign.pk))
    messages.success(request, done)
    return redirect("campaign-detail", campaign_id=campaign.pk)
