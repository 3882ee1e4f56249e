"""The list of searches, and the page that starts one."""

from __future__ import annotations

import secrets
from itertools import groupby
from typing import Any, cast

from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe
from django.views.decorators.vary import vary_on_headers

from adaexplore_site.actions import registry
from adaexplore_site.actions.runner import may
from adaexplore_site.actions.views import done, form_again, submit
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.requests import SiteRequest, form_key
from judge.devices.models import Device
from judge.devices.services import search_devices, served_devices
from judge.problems.models import OFFERED, Problem
from judge.problems.preflight import preflight
from search import proposers
from search.records.models import Run
from search.records.queries import run_summaries
from search.runs.forms import StartForm
from search.runs.listing import SORTS, TABS, RunFilter, devices_searched, run_rows

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
        return render(request, "runs/run_list.html#runs", context | {"fragment": True})
    context["any_run"] = bool(found) or Run.objects.exists()
    context["tabs"] = [(chosen.url(state=name), label, name == chosen.state) for name, (label, _) in TABS.items()]
    context |= {"sorts": SORTS.items(), "devices": devices_searched()}
    if not context["any_run"]:
        context["sample"] = _first_sample()
    return render(request, "runs/run_list.html", context)


def _first_sample() -> Problem | None:
    samples = Problem.objects.filter(OFFERED, origin=Problem.Origin.SAMPLE).defer("source", "admission")
    return samples.filter(slug=FIRST_SAMPLE).first() or samples.order_by("pk").first()


@never_cache
@vary_on_headers("HX-Request")
@require_http_methods(["GET", "HEAD", "POST"])
def run_new(request: SiteRequest) -> HttpResponseBase:
    """Choose a problem, see its preflight, start. A POST before the preflight is done waits for it."""
    if request.method == "POST":
        return _start(request)
    slug = request.GET.get("problem")
    if slug is None:
        return render(request, "runs/run_new.html", _samples())
    problem = get_object_or_404(Problem, slug=slug)
    devices, choices = list(search_devices()), proposers.available()
    wanted = request.GET.get("device", "interpreter")
    initial = {"device": wanted, "proposer": proposers.default_name()}
    form = StartForm(initial=initial, devices=devices, choices=choices)
    device = next((device for device in devices if device.name == wanted), devices[0] if devices else None)
    context = _form_context(problem, form, devices, secrets.token_urlsafe(16)) | _checked(problem, device)
    return render(request, "runs/run_new.html", context)


def _samples() -> dict[str, Any]:
    samples = Problem.objects.filter(OFFERED, origin=Problem.Origin.SAMPLE).defer("source", "admission")
    rows = samples.order_by("family", "title")
    others = Problem.objects.filter(OFFERED).exclude(origin__in=(Problem.Origin.SAMPLE, Problem.Origin.SYNTHETIC))
    return {
        "families": [(family, list(group)) for family, group in groupby(rows, key=lambda row: row.family)],
        "others": others.count(),
    }


def _form_context(problem: Problem, form: StartForm, devices: list[Device], key: str) -> dict[str, Any]:
    return {
        "problem": problem,
        "form": form,
        "devices": devices,
        "inactive": list(served_devices().exclude(state=Device.State.ACTIVE)),
        "choices": proposers.available(),
        "only_interpreter": bool(devices) and not any(device.is_gpu for device in devices),
        "key": key,
        "auto": True,
    }


def _checked(problem: Problem, device: Device | None) -> dict[str, Any]:
    """What the chosen device knows of the problem: the panel shows it, and the start button hangs on it."""
    return {"check": preflight(problem, device, now=timezone.now()) if device else None}


def _start(request: SiteRequest) -> HttpResponseBase:
    action = registry.action("run.start")
    may(action, request.user)
    problem = get_object_or_404(Problem, slug=request.POST.get("problem", ""))
    form, status, waiting = action.form(None, request.POST, request.FILES), 200, True
    try:
        outcome = submit(request, action, {})
        if not outcome.result.pending:
            return done(request, action, outcome)
        form.is_valid()
    except ActionRefused as error:
        (form, status), waiting = form_again(request, action, {}, error), False
    devices, key = list(search_devices()), form_key(request) or secrets.token_urlsafe(16)
    context = _form_context(problem, cast(StartForm, form), devices, key) | {"waiting": waiting}
    return _start_page(request, context, status=status)


def _start_page(request: SiteRequest, context: dict[str, Any], *, status: int) -> HttpResponse:
    device = context["form"].cleaned_data.get("device") or next(iter(context["devices"]), None)
    template = "runs/_start.html" if request.htmx else "runs/run_new.html"
    return render(request, template, context | _checked(context["problem"], device), status=status)


def _whole(text: str | None) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise Http404(_("`before` is the number of a search."))
    return int(text)
