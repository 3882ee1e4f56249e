"""Pages of the judge: problems, their upload, their preflight."""

from __future__ import annotations

import logging

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import trigger_client_event
from kombu.exceptions import OperationalError

from adaexplore_site.core.access import Role, can, require
from adaexplore_site.core.requests import SiteRequest
from judge.devices.models import Device
from judge.devices.services import judging_devices, search_devices
from judge.evaluations.services import case_of
from judge.problems import queries as problem_facts
from judge.problems.admission import admission_queue
from judge.problems.costs import costs
from judge.problems.kind import problem_at
from judge.problems.models import OFFERED, Problem
from judge.problems.preflight import Preflight, preflight
from judge.problems.queries import problem_page
from judge.problems.sealing import kinds_said, sealing_due, sets_in_force, sets_to_open
from judge.sources.highlighting import listing
from judge.tasks import admit_problem, seal_problem
from judge.values import Policy

log = logging.getLogger(__name__)

GRAPH_ROWS = 200


@never_cache
@require_safe
def problem_list(request: SiteRequest) -> HttpResponse:
    """All problems by family, with what the preflight said, the eager baselines and the best speedup per basis."""
    chosen = {name: request.GET.get(name, "").strip()[:80] for name in ("q", "state", "origin", "shelf")}
    archived = chosen["shelf"] == "archived"
    page = problem_page(q=chosen["q"], state=chosen["state"], origin=chosen["origin"], archived=archived)
    families: dict[str, list[Problem]] = {}
    for row in page.rows:
        families.setdefault(row.family, []).append(row)
    context = {
        "families": sorted(families.items(), key=lambda item: (not item[0], item[0])),
        "shown": len(page.rows),
        "total": page.total,
        "chosen": chosen,
        "filtered": any(chosen.values()),
        "states": Problem.State.choices,
        "origins": Problem.Origin.choices,
        "synthetic": 0 if chosen["origin"] or archived else _composed(),
        "archived": archived,
    }
    return render(request, "problems/problem_list.html", context)


def _composed() -> int:
    return Problem.objects.filter(OFFERED, origin=Problem.Origin.SYNTHETIC).count()


@never_cache
@require_safe
def problem_detail(request: SiteRequest, slug: str) -> HttpResponse:
    """Source, versions, policy, what it costs where, baselines, flaws, cases, operators, searches."""
    problem = problem_at(slug)
    now = timezone.now()
    known = [
        preflight(problem, device, now=now) for device in Device.objects.judging().order_by("remote", "-kind", "name")
    ]
    checks = [check for check in known if check.device.state == Device.State.ACTIVE]
    declared = problem_facts.declared_rows(problem, known)
    context = {
        "problem": problem,
        "code": listing(problem.source),
        "checks": checks,
        "why_not": _why_not(problem, checks),
        "policy": problem_facts.policy_rows(Policy.from_json(problem.policy)),
        "flaws": problem_facts.flaws(known),
        "costs": costs(problem, known),
        "graph": problem_facts.graph_summary(known, GRAPH_ROWS),
        "declared": declared,
        "weighs": any(case.weight for case in declared),
        "sealed": [(one, kinds_said(one.as_cases())) for one in sets_in_force(problem)],
        "to_open": can(request.user, Role.ADMIN) and bool(sets_to_open(problem)),
        "versions": list(problem.versions.select_related("created_by").defer("source", "admission", "description")),
        "runs": problem.runs.select_related("device").order_by("-id")[:20],
        "run_count": problem.runs.count(),
    }
    return render(request, "problems/problem_detail.html", context)


def _why_not(problem: Problem, checks: list[Preflight]) -> str:
    """Why this problem can be searched on no device; empty when it can on some, or when nobody knows yet."""
    if problem.state != Problem.State.REFUSED:
        return ""
    return next((check.why_not for check in checks if check.why_not), _("The preflight refused this problem."))


@never_cache
@vary_on_headers("HX-Request")
@require_http_methods(["GET", "HEAD", "POST"])
def problem_preflight(request: SiteRequest, slug: str) -> HttpResponse:
    """The preflight panel of one device (`device` in the query or form). POST starts it unless it is on its way."""
    problem = get_object_or_404(Problem, slug=slug)
    name = request.POST.get("device") or request.GET.get("device") or "interpreter"
    device = get_object_or_404(search_devices(), name=name)
    if request.method == "POST":
        require(request.user, Role.OPERATOR)
        preflight_start(problem, device, again="again" in request.POST)
        if not request.htmx:
            return redirect(reverse("run-new", query={"problem": problem.slug, "device": device.name}))
    return preflight_panel(request, problem, device)


def preflight_panel(request: SiteRequest, problem: Problem, device: Device, *, refused: str = "") -> HttpResponse:
    """The preflight of one device as it stands; `refused` says why what was asked for was not done."""
    check = preflight(problem, device, now=timezone.now())
    asked, auto = bool(request.htmx), "auto" in request.GET
    context = {"check": check, "asked": asked, "auto": auto, "refused": refused}
    answer = render(request, "problems/_preflight.html", context, status=409 if refused else 200)
    if request.method == "POST" or auto or not check.unfinished:  # not with each poll of one that runs
        trigger_client_event(answer, "preflight-changed")  # what hangs on it, such as a start button, asks anew
    return answer


def preflight_start(problem: Problem, device: Device, *, again: bool = False) -> None:
    """Queue a preflight, unless one is under way, or decided and `again` is not set. For a device of another machine
    it waits to be exported.

    When the broker is away it stays queued, and the panel says that nobody answers and what to do. Nothing of a
    quarantined problem is queued.
    """
    check = preflight(problem, device, now=timezone.now())
    if check.unfinished and not check.nobody_answers:
        return
    if problem.quarantined or (check.decided and not again):
        return
    admission_queue(problem=problem, device=device)  # first: a fast worker must find it and write over it
    preflight_send(problem, device)


def preflight_send(problem: Problem, device: Device) -> None:
    """Send a queued preflight to the worker of its device."""
    if device.remote:
        return  # it leaves with the next jobs
    try:
        admit_problem.apply_async(args=[problem.pk, device.pk], queue=device.queue, retry=False)
    except OperationalError as error:
        log.warning("preflight of %s on %s waits: the broker is away (%s)", problem.slug, device.name, error)


def sealing_start(problem: Problem) -> None:
    """Have sealed cases derived where they are due, on each device whose preflight the problem has passed."""
    for device in judging_devices():
        if preflight(problem, device, now=timezone.now()).usable and sealing_due(problem, case_of(problem, device)):
            try:
                seal_problem.apply_async(args=[problem.pk, device.pk], queue=device.queue, retry=False)
            except OperationalError as error:
                log.warning("sealed cases of %s wait for the next preflight: the broker is away (%s)", problem, error)
