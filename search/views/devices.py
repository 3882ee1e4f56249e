"""The fleet: every device with its state and trust, one device in full, and the acts that drain or quarantine it."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.db.models import Count, Min
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from adaexplore_site.access import Role, role_required
from adaexplore_site.audit import ActionRefused
from adaexplore_site.gate import question
from adaexplore_site.models import Action
from adaexplore_site.requests import SiteRequest, form_key
from judge import device_facts
from judge.models import Device
from judge.services.device_checks import check_last, noise_last
from judge.trust import doubt_of, trusts
from search.fleet import SORTS, FleetRow, fleet_rows
from search.models import Node, Run
from search.services import revoking
from search.services.devices import CHECK, device_check_ask, device_state_set
from search.tasks import check_send, send

ACTIONS_SHOWN = 20
RUNS_SHOWN = 20
ACTS = (
    (Device.State.ACTIVE, "Activate", "It takes searches again; those that were paused are resumed by hand."),
    (Device.State.DRAINING, "Drain", "It takes no new searches and goes on with those it has."),
    (Device.State.QUARANTINED, "Quarantine", "Its verdicts are not trusted: its running searches are paused."),
)


@dataclass(frozen=True)
class Shown:
    """A device of the fleet with the acts that are possible on it."""

    one: FleetRow

    @property
    def acts(self) -> list[tuple[str, ...]]:
        return _acts(self.one.device)

    @property
    def checkable(self) -> bool:
        return _checkable(self.one.device)

    @property
    def key(self) -> str:
        return secrets.token_urlsafe(16)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.one, name)


@never_cache
@vary_on_headers("HX-Request")
@require_safe
def device_list(request: SiteRequest) -> HttpResponse:
    """Every device that judges here or elsewhere, then those that only own imported numbers.

    Query: `sort`; `worker` shows one device, by name; `device` gives the live part of one.
    """
    now = timezone.now()
    devices = device_facts.ordered(Device.objects.all())
    if request.htmx and request.GET.get("device", "").isdecimal():
        chosen = [device for device in devices if str(device.pk) == request.GET["device"] and device.judges]
        if not chosen:
            raise Http404("There is no such device any more.")
        return render(request, "judge/device_list.html#device", {"one": Shown(fleet_rows(chosen, now=now)[0])})
    ours = [device for device in devices if device.kind != Device.Kind.EXTERNAL]
    external = [device for device in devices if device.kind == Device.Kind.EXTERNAL]
    worker = request.GET.get("worker", "")
    alone = [device for device in ours if device.name == worker]
    sort = request.GET.get("sort", "")
    sort = sort if sort in SORTS else SORTS[0]
    context = {
        "rows": [Shown(row) for row in fleet_rows(alone or ours, now=now, sort=sort)],
        "external": [] if alone else device_facts.device_rows(external, now=now),
        "alone": bool(alone),
        "worker": worker,
        "only_interpreter": bool(ours) and not any(device.kind == Device.Kind.CUDA for device in ours),
        "sort": sort,
        "sorts": tuple(zip(SORTS, ("By name", "Longest queue first", "Longest silent first"), strict=True)),
    }
    return render(request, "judge/device_list.html", context)


@never_cache
@require_safe
def device_detail(request: SiteRequest, device_id: int) -> HttpResponse:
    """What it is, whether to believe it, its sandbox, what waits for it, what it has judged, who changed it."""
    device = get_object_or_404(Device, pk=device_id)
    return render(request, "judge/device_detail.html", _context(device))


@role_required(Role.OPERATOR)
@require_POST
def device_state(request: SiteRequest, device_id: int) -> HttpResponse:
    """Drain, quarantine or activate. What is not possible is 409 with the reason."""
    device = get_object_or_404(Device, pk=device_id)
    if request.POST.get("state") not in Device.State.values:
        raise Http404("No such state of a device.")
    state = Device.State(request.POST["state"])
    key = form_key(request)
    try:
        paused = device_state_set(
            device=device, state=state, user=request.user, key=key, reason=request.POST.get("reason", "")
        )
    except ActionRefused as error:
        return render(request, "judge/device_detail.html", _context(device) | {"refused": str(error)}, status=409)
    told = f" {len(paused)} running search{'es' if len(paused) != 1 else ''} paused." if paused else ""
    messages.success(request, f"{device.name} is {device.state}.{told}")
    return redirect("device-detail", device_id=device.pk)


@role_required(Role.OPERATOR)
@require_POST
def device_check(request: SiteRequest, device_id: int) -> HttpResponse:
    """Have the device's worker calibrate it. Passing ends a quarantine that the judge began."""
    device = get_object_or_404(Device, pk=device_id)
    key = form_key(request)
    try:
        asked = device_check_ask(device=device, user=request.user, key=key)
    except ActionRefused as error:
        return render(request, "judge/device_detail.html", _context(device) | {"refused": str(error)}, status=409)
    if asked is not None and not check_send(device, asked):
        messages.error(request, "The broker is away, so no worker could be told. Try again later.")
    else:
        messages.info(request, f"The check waits for the worker of {device.name}; reload this page in a moment.")
    return redirect("device-detail", device_id=device.pk)


@role_required(Role.OPERATOR)
@require_POST
def node_revoke(request: SiteRequest, run_id: int, number: int) -> HttpResponse:
    """Take an evaluation in progress back and queue it anew. Asks first: what its worker has done so far is lost."""
    node = get_object_or_404(Node.objects.select_related("run__device"), run_id=run_id, number=number)
    device = node.run.device
    asked = question(
        request,
        ask=f"Take node {number} back from {device.name}?",
        what="It is queued anew and judged from its beginning. A worker that hangs is left to its own limit of time; "
        "what it still finds out tells nothing.",
        yes="Take it back",
        back=reverse("device-list"),
    )
    if asked is not None:
        return asked
    try:
        hops = revoking.node_revoke(node=node, user=request.user, key=form_key(request))
    except ActionRefused as error:
        return render(request, "judge/device_detail.html", _context(device) | {"refused": str(error)}, status=409)
    send(hops)
    messages.success(request, f"Node {number} of search {run_id} is queued anew.")
    return redirect("device-list")


def _context(device: Device) -> dict[str, Any]:
    external = device.kind == Device.Kind.EXTERNAL
    tested = None if not device.judges else trusts([device], now=timezone.now())[device.pk]
    runs = Run.objects.filter(device=device).select_related("problem").order_by("-id")
    return {
        "device": device,
        "external": external,
        "tested": tested,
        "doubt": doubt_of(tested) if tested else None,
        "peaks": device_facts.peaks(device),
        "facts": device_facts.facts(device),
        "noise": noise_last(device) if device.measures else None,
        "checked": check_last(device) if device.judges else None,
        "record": device_facts.record(device),
        "waiting": _waiting().get(device.pk),
        "running": runs.filter(state=Run.State.RUNNING)[:RUNS_SHOWN],
        "actions": _actions(device),
        "acts": _acts(device),
        "checkable": _checkable(device),
        "key": secrets.token_urlsafe(16),
        "check_key": secrets.token_urlsafe(16),
    }


def _acts(device: Device) -> list[tuple[str, ...]]:
    return [(state.value, *words) for state, *words in ACTS if state != device.state and device.judges]


def _checkable(device: Device) -> bool:
    return device.judges and not device.remote and bool(device.measures or device.state_cause)


def _waiting() -> dict[int, dict[str, Any]]:
    """Per device the candidates that wait for it or are on it: how many, and since when."""
    nodes = Node.objects.filter(state=Node.State.JUDGING).order_by().values_list("run__device")
    found = nodes.annotate(Count("pk"), Min("created_at"))
    return {device_id: {"count": count, "since": since} for device_id, count, since in found}


def _actions(device: Device) -> list[Action]:
    rows = Action.objects.filter(object_type="device", object_id=str(device.pk)).exclude(verb=CHECK)
    rows = rows.select_related("actor")
    return list(rows.order_by("-id")[:ACTIONS_SHOWN])
