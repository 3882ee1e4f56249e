"""The fleet: every device with its state and trust, and one device in full."""

from __future__ import annotations

from django.db.models import Count, Min
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.requests import SiteRequest
from judge.devices.models import Device
from judge.selftest.noise_checks import check_last, noise_last
from judge.selftest.trust import trusts
from search.fleet import queries
from search.fleet.queries import SORTS, fleet_rows
from search.fleet.services import CHECK
from search.records.models import Node, Run

ACTIONS_SHOWN = 20
RUNS_SHOWN = 20


@never_cache
@vary_on_headers("HX-Request")
@require_safe
def device_list(request: SiteRequest) -> HttpResponse:
    """Every device that judges here or elsewhere, then those that only own imported numbers.

    Query: `sort`; `worker` shows one device, by name; `device` gives the live part of one.
    """
    now = timezone.now()
    devices = queries.ordered(Device.objects.all())
    if request.htmx and request.GET.get("device", "").isdecimal():
        chosen = [device for device in devices if str(device.pk) == request.GET["device"] and device.judges]
        if not chosen:
            raise Http404(_("There is no such device any more."))
        return render(request, "fleet/device_list.html#device", {"one": fleet_rows(chosen, now=now)[0]})
    ours = [device for device in devices if not device.imported]
    worker = request.GET.get("worker", "")
    alone = [device for device in ours if device.name == worker]
    sort = request.GET.get("sort", "")
    sort = sort if sort in SORTS else SORTS[0]
    context = {
        "rows": fleet_rows(alone or ours, now=now, sort=sort),
        "external": [] if alone else Device.objects.imported().annotate(figures=Count("evaluations")).order_by("name"),
        "alone": bool(alone),
        "worker": worker,
        "only_interpreter": bool(ours) and not any(device.is_gpu for device in ours),
        "sort": sort,
        "sorts": tuple(zip(SORTS, (_("By name"), _("Longest queue first"), _("Longest silent first")), strict=True)),
    }
    return render(request, "fleet/device_list.html", context)


@never_cache
@require_safe
def device_detail(request: SiteRequest, device_id: int) -> HttpResponse:
    """One device: facts, trust, sandbox, queue, verdicts and changes of its state."""
    device = get_object_or_404(Device, pk=device_id)
    tested = None if not device.judges else trusts([device], now=timezone.now())[device.pk]
    runs = Run.objects.filter(device=device).select_related("problem").order_by("-id")
    judging = Node.objects.filter(state=Node.State.JUDGING, run__device=device)
    waiting = judging.aggregate(count=Count("pk"), since=Min("created_at"))
    context = {
        "device": device,
        "tested": tested,
        "peaks": queries.peaks(device),
        "facts": queries.facts(device),
        "class_gpus": queries.class_gpus(device),
        "noise": noise_last(device) if device.measures else None,
        "checked": check_last(device) if device.judges else None,
        "record": queries.record(device),
        "waiting": waiting if waiting["count"] else None,
        "running": runs.filter(state=Run.State.RUNNING)[:RUNS_SHOWN],
        "actions": _actions(device),
        "changes": queries.changes(device),
    }
    return render(request, "fleet/device_detail.html", context)


def _actions(device: Device) -> list[AuditEntry]:
    rows = AuditEntry.objects.filter(object_type="device", object_id=str(device.pk)).exclude(verb=CHECK)
    rows = rows.select_related("actor")
    return list(rows.order_by("-id")[:ACTIONS_SHOWN])
