"""The list of searches, starting one, and the acts that steer one."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import Any
from urllib.parse import parse_qsl

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import HttpResponseClientRedirect

from adaexplore_site.access import Role, require, role_required
from adaexplore_site.audit import ActionRefused
from adaexplore_site.requests import SiteRequest, form_key
from judge.models import Device, Problem
from judge.preflight import preflight
from judge.selectors import judging_devices, served_devices
from judge.views import preflight_start
from search import proposers
from search.forms import StartForm
from search.models import Run
from search.run_filter import SORTS, TABS, RunFilter, devices_searched
from search.run_rows import run_rows
from search.selectors import run_summaries
from search.services import archiving
from search.services import runs as run_services
from search.services.hops import Hop
from search.tasks import send

PAGE = 50
FIRST_SAMPLE = "bias_gelu_scale"  # small and quick on the interpreter


@never_cache
@vary_on_headers("HX-Request")
@require_safe
def run_list(request: SiteRequest) -> HttpResponse:
    """Every search with its best speedup and progress; the table asks again every three seconds."""
    chosen = RunFilter.of({name: str(value) for name, value in request.GET.items()})
    before = _whole(request.GET.get("before"))
    found = list(chosen.runs(before)[: PAGE + 1])
    context: dict[str, Any] = {
        "rows": run_rows(run_summaries(found[:PAGE]), now=timezone.now()),
        "chosen": chosen,
        "after_cursor": before is not None,
        "newest": chosen.url(),
        "older": chosen.url(before=found[PAGE - 1].pk) if len(found) > PAGE else None,
    }
    if request.htmx:
        return render(request, "search/run_list.html#runs", context | {"fragment": True})
    context["any_run"] = bool(found) or Run.objects.exists()
    context["tabs"] = [(chosen.url(state=name), label, name == chosen.state) for name, (label, _) in TABS.items()]
    context |= {"sorts": SORTS.items(), "devices": devices_searched()}
    if not context["any_run"]:
        context["sample"] = _first_sample()
    return render(request, "search/run_list.html", context)


def _first_sample() -> Problem | None:
    samples = Problem.objects.filter(origin=Problem.Origin.SAMPLE).defer("source", "admission")
    return samples.filter(slug=FIRST_SAMPLE).first() or samples.order_by("pk").first()


@never_cache
@vary_on_headers("HX-Request")
@require_http_methods(["GET", "HEAD", "POST"])
def run_new(request: SiteRequest) -> HttpResponse:
    """Choose a problem, see its preflight, start. A POST before the preflight is done waits for it."""
    if request.method == "POST":
        require(request.user, Role.OPERATOR)
        return _start(request)
    slug = request.GET.get("problem")
    if slug is None:
        return render(request, "search/run_new.html", _samples())
    problem = get_object_or_404(Problem, slug=slug)
    devices, choices = list(judging_devices()), proposers.available()
    wanted = request.GET.get("device", "interpreter")
    initial = {"device": wanted, "proposer": proposers.default_name()}
    form = StartForm(initial=initial, devices=devices, choices=choices)
    device = next((device for device in devices if device.name == wanted), devices[0] if devices else None)
    context = _form_context(problem, form, devices, secrets.token_urlsafe(16)) | _checked(problem, device)
    return render(request, "search/run_new.html", context)


def _samples() -> dict[str, Any]:
    samples = Problem.objects.filter(origin=Problem.Origin.SAMPLE).defer("source", "admission")
    rows = samples.order_by("family", "title")
    return {
        "families": [(family, list(group)) for family, group in groupby(rows, key=lambda row: row.family)],
        "others": Problem.objects.exclude(origin__in=(Problem.Origin.SAMPLE, Problem.Origin.SYNTHETIC)).count(),
    }


def _form_context(problem: Problem, form: StartForm, devices: list[Device], key: str) -> dict[str, Any]:
    return {
        "problem": problem,
        "form": form,
        "devices": devices,
        "inactive": list(served_devices().exclude(state=Device.State.ACTIVE)),
        "choices": proposers.available(),
        "only_interpreter": bool(devices) and all(device.kind == Device.Kind.INTERPRETER for device in devices),
        "key": key,
        "auto": True,
    }


def _checked(problem: Problem, device: Device | None) -> dict[str, Any]:
    """What the chosen device knows of the problem: the panel shows it, and the start button hangs on it."""
    return {"check": preflight(problem, device, now=timezone.now()) if device else None}


def _start(request: SiteRequest) -> HttpResponse:
    problem = get_object_or_404(Problem, slug=request.POST.get("problem", ""))
    devices, choices = list(judging_devices()), proposers.available()
    form = StartForm(request.POST, devices=devices, choices=choices)
    key = form_key(request)
    context = _form_context(problem, form, devices, key or secrets.token_urlsafe(16))
    if not form.is_valid():
        return _start_page(request, context, status=422)
    device: Device = form.cleaned_data["device"]
    check = preflight(problem, device, now=timezone.now())
    if check.state == "new" or check.stalled:
        preflight_start(problem, device)
        check = preflight(problem, device, now=timezone.now())
    if check.unfinished:
        return _start_page(request, context | {"waiting": True}, status=200)
    if not check.usable:
        form.add_error(None, check.why_not or f"The preflight on {device.name} did not pass. Check again.")
        return _start_page(request, context, status=422)
    try:
        run = run_services.run_start(
            problem=problem,
            device=device,
            proposer=form.cleaned_data["proposer"],
            steps=form.cleaned_data["steps"],
            seed=form.cleaned_data["seed"],
            params=form.cleaned_data["preset"].params.to_json(),
            title=form.cleaned_data["title"],
            concurrency=form.cleaned_data["concurrency"] or 1,
            limits=form.limits(),
            memory=form.memory(),
            options=form.options(),
            user=request.user,
            key=key,
        )
    except ActionRefused as error:
        form.refuse(error)
        return _start_page(request, context | {"key": secrets.token_urlsafe(16)}, status=409)
    send([Hop("advance", run.pk)])
    target = reverse("run-detail", args=[run.pk])
    return HttpResponseClientRedirect(target) if request.htmx else redirect(target)


def _start_page(request: SiteRequest, context: dict[str, Any], *, status: int) -> HttpResponse:
    device = context["form"].cleaned_data.get("device") or next(iter(context["devices"]), None)
    template = "search/_start.html" if request.htmx else "search/run_new.html"
    return render(request, template, context | _checked(context["problem"], device), status=status)


@role_required(Role.OPERATOR)
@require_POST
def run_pause(request: SiteRequest, run_id: int) -> HttpResponse:
    """No new steps."""
    return _steer(request, run_id, run_services.run_pause, "Paused. Steps in flight end first.")


@role_required(Role.OPERATOR)
@require_POST
def run_resume(request: SiteRequest, run_id: int) -> HttpResponse:
    """Go on."""
    return _steer(request, run_id, run_services.run_resume, "Resumed.", go_on=True)


@role_required(Role.OPERATOR)
@require_POST
def run_stop(request: SiteRequest, run_id: int) -> HttpResponse:
    """End it, keep the tree. With `now` nothing in flight is waited for."""
    if request.POST.get("now"):
        return _steer(request, run_id, partial(run_services.run_stop, drain=False), "Stopped. The tree is kept.")
    return _steer(request, run_id, run_services.run_stop, "Stopping. The tree is kept.")


@role_required(Role.OPERATOR)
@require_POST
def run_archive(request: SiteRequest, run_id: int) -> HttpResponse:
    """Take an ended search out of the lists (`archived` is 1), or back into them."""
    archive = request.POST.get("archived") == "1"
    run = get_object_or_404(Run.objects.select_related("problem"), pk=run_id)
    try:
        archiving.run_archive(run=run, archived=archive, user=request.user, key=form_key(request))
    except ActionRefused as error:
        return refused(request, str(error), run)
    told = "is archived: the tab Archived lists it" if archive else "is listed again"
    messages.success(request, f"Search {run.pk} {told}.")
    back = request.POST.get("back", "")
    return redirect(RunFilter.of(dict(parse_qsl(back[:400]))).url())


def _steer(
    request: SiteRequest, run_id: int, act: Callable[..., Run], done: str, *, go_on: bool = False
) -> HttpResponse:
    """Do one act on a run. 204 for scripts, a redirect for forms; 409 with the reason when it is not possible."""
    run = get_object_or_404(Run.objects.select_related("problem"), pk=run_id)
    try:
        run = act(run=run, user=request.user, key=form_key(request))
    except ActionRefused as error:
        return refused(request, str(error), run)
    if go_on:
        send([Hop("advance", run.pk)])
    if request.htmx:
        return HttpResponse(status=204)
    messages.success(request, done)
    return redirect("run-detail", run_id=run.pk)


def refused(request: SiteRequest, message: str, run: Run, **form: Any) -> HttpResponse:
    """409: a notice for scripts, a whole page for forms; `form` says which form to show again, with what in it."""
    template = "search/_refused.html" if request.htmx else "search/refused.html"
    return render(request, template, {"message": message, "run": run, **form}, status=409)


def _whole(text: str | None) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise Http404("`before` is the number of a search.")
    return int(text)
