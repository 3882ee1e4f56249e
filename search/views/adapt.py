"""Adapt runs: the list, a new one, its progress, lessons and effect, and the acts on it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from adaexplore_site.access import Role, require, role_required
from adaexplore_site.audit import ActionRefused
from adaexplore_site.gate import question
from adaexplore_site.llm import endpoint_from_settings
from adaexplore_site.requests import SiteRequest, form_key
from judge.models import Problem
from judge.selectors import judging_devices
from memory.adapt.curve import curve_of
from memory.choices import MemoryChoice
from memory.models import AdaptRun
from search import proposers
from search.adapt_document import adapt_csv, adapt_document
from search.adapt_form import AdaptForm
from search.adapt_rows import adapt_rows, effect_read, learned_by, task_rows
from search.campaign_problems import in_order
from search.services import adapt_runs as services
from search.services.adapt_advance import adapt_advance
from search.services.adapt_spending import spent_of
from search.tasks import send
from search.views.downloads import attachment

PAGE = 100
MOST_ROWS = 200
REAL = (Problem.Origin.IMPORT, Problem.Origin.UPLOAD)


@never_cache
@require_safe
def adapt_list(request: SiteRequest) -> HttpResponse:
    """Every adapt run with its progress, newest first."""
    adapts = AdaptRun.objects.select_related("device", "owner", "transfer_of").order_by("-id")[:PAGE]
    return render(request, "adapt/adapt_list.html", {"rows": adapt_rows(list(adapts))})


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def adapt_new(request: SiteRequest) -> HttpResponse:
    """What all tasks share. A POST that cannot be is 422 or 409 with the reason."""
    if request.method == "POST":
        require(request.user, Role.OPERATOR)
        return _start(request)
    form = _form(initial={"proposer": proposers.default_name()})
    return render(request, "adapt/adapt_new.html", {"form": form, "key": secrets.token_urlsafe(16)})


def _form(*args: Any, **kwargs: Any) -> AdaptForm:
    ready = not endpoint_from_settings().missing()
    return AdaptForm(*args, devices=list(judging_devices()), choices=proposers.available(), model_ready=ready, **kwargs)


def _start(request: SiteRequest) -> HttpResponse:
    form, status = _form(request.POST), 422
    if form.is_valid():
        try:
            adapt = services.adapt_start(plan=_plan(form), user=request.user, key=form_key(request))
        except (ActionRefused, ValueError) as error:
            form.add_error(None, str(error))
            status = 409
        else:
            send(adapt_advance(adapt_id=adapt.pk))
            return redirect("adapt-detail", adapt_id=adapt.pk)
    context = {"form": form, "key": secrets.token_urlsafe(16)}
    return render(request, "adapt/adapt_new.html", context, status=status)


def _plan(form: AdaptForm) -> services.AdaptPlan:
    data = form.cleaned_data
    return services.AdaptPlan(
        device=data["device"],
        proposer=data["proposer"],
        tasks=data["tasks"],
        steps=data["steps"],
        control_steps=data["control_steps"],
        seed=data["seed"],
        composer=data["composer"],
        at_once=data["at_once"],
        concurrency=data["concurrency"],
        title=data["title"],
        params=data["preset"].params.to_json(),
        limits=form.limits,
        memory=MemoryChoice(uses=True, learns=True, trust=data["trust"], threshold=data["threshold"]),
    )


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
        return render(request, "adapt/adapt_detail.html#progress", context)
    context |= {"controls": _controls(adapt), "transfers": adapt_rows(list(adapt.transfers.select_related("device")))}
    if adapt.transfer_of_id is None:
        context |= {"problems": _real_problems(), "key": secrets.token_urlsafe(16), "control": services.CONTROL_STEPS}
    return render(request, "adapt/adapt_detail.html", context)


def _real_problems() -> list[Problem]:
    """What nobody composed and nothing was learned on, in the order a benchmark counts it."""
    rows = Problem.objects.filter(origin__in=REAL).exclude(state__in=(Problem.State.REFUSED, Problem.State.DEGENERATE))
    return in_order(rows.defer("source", "description", "admission"))


def _controls(adapt: AdaptRun) -> list[dict[str, str]]:
    """The acts that are possible now, each with a key of its own so that a repeated submit is one act."""
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


@role_required(Role.OPERATOR)
@require_POST
def adapt_pause(request: SiteRequest, adapt_id: int) -> HttpResponse:
    """Start nothing more; pause what runs."""
    return _act(request, adapt_id, services.adapt_pause, "Paused. Steps in flight end first.")


@role_required(Role.OPERATOR)
@require_POST
def adapt_resume(request: SiteRequest, adapt_id: int) -> HttpResponse:
    """Go on, with what the pause had paused."""
    return _act(request, adapt_id, services.adapt_resume, "Resumed.", go_on=True)


@role_required(Role.OPERATOR)
@require_POST
def adapt_stop(request: SiteRequest, adapt_id: int) -> HttpResponse:
    """End it and its searches, once the person is sure. What was learned is kept."""
    back = reverse("adapt-detail", args=[adapt_id])
    what = (
        "Its searches are stopped, and no other task starts. "
        "What was learned is kept. A stop stays; a pause can be undone."
    )
    asked = question(request, ask="Stop this adapt run?", what=what, yes="Stop the adapt run", back=back)
    return asked or _act(request, adapt_id, services.adapt_stop, "Stopped. What was learned is kept.")


def _act(
    request: SiteRequest, adapt_id: int, act: Callable[..., AdaptRun], done: str, *, go_on: bool = False
) -> HttpResponse:
    """Do one act. A redirect with a message; 409 with the reason when it is not possible."""
    adapt = get_object_or_404(AdaptRun, pk=adapt_id)
    try:
        adapt = act(adapt=adapt, user=request.user, key=form_key(request))
    except ActionRefused as error:
        return _refused(request, adapt, error)
    if go_on:
        send(services.adapt_hops(adapt))
        send(adapt_advance(adapt_id=adapt.pk))
    messages.success(request, done)
    return redirect("adapt-detail", adapt_id=adapt.pk)


def _refused(request: SiteRequest, adapt: AdaptRun, error: ActionRefused) -> HttpResponse:
    return render(request, "adapt/adapt_refused.html", {"message": str(error), "adapt": adapt}, status=409)


@role_required(Role.OPERATOR)
@require_POST
def adapt_transfer(request: SiteRequest, adapt_id: int) -> HttpResponse:
    """Search given problems with and without the rules that this adapt run has learned."""
    adapt = get_object_or_404(AdaptRun.objects.select_related("device"), pk=adapt_id)
    slugs = [slug[:80] for slug in request.POST.getlist("problem")][: services.MAX_TASKS]
    chosen = {problem.slug: problem for problem in Problem.objects.filter(slug__in=slugs)}
    try:
        plan = services.AdaptPlan(
            device=adapt.device,
            proposer=adapt.proposer,
            steps=_whole(request, "steps"),
            seed=adapt.seed,
            at_once=adapt.at_once,
            concurrency=adapt.concurrency,
            params=adapt.params,
            options=adapt.proposer_options,
            memory=MemoryChoice.from_json(adapt.memory),
        )
        problems = [chosen[slug] for slug in slugs if slug in chosen]
        made = services.transfer_start(
            learned_by=adapt, problems=problems, plan=plan, user=request.user, key=form_key(request)
        )
    except ActionRefused as error:
        return _refused(request, adapt, error)
    send(adapt_advance(adapt_id=made.pk))
    return redirect("adapt-detail", adapt_id=made.pk)


def _whole(request: SiteRequest, name: str) -> int:
    text = request.POST.get(name, "").strip()
    if not (text.isascii() and text.isdigit() and len(text) < 8):
        raise ActionRefused("Steps must be a whole number, such as 5.")
    return int(text)
