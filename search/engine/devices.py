"""Drain, quarantine, check and activate a device. Each act leaves an audit row; a key makes a repeated submit one act.

A quarantine by a person pauses the searches there. One by the judge itself lets them wait, so that they go on by
themselves once a check has passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from adaexplore_site.core.audit import action_on
from judge.devices.models import Device
from search.records.events import DeviceActivated, DeviceQuarantined
from search.records.log import event_write
from search.records.models import Run
from search.records.texts import clip

if TYPE_CHECKING:
    pass

VERBS = {
    Device.State.ACTIVE: "device.activate",
    Device.State.DRAINING: "device.drain",
    Device.State.QUARANTINED: "device.quarantine",
}
DRIFTED = "device.drift"
REASON_CHARS = 300


def device_quarantine(*, device: Device, cause: Device.Cause, reason: str) -> bool:
    """The judge stops believing a device: nothing more is judged there, and what waits says why. False when it was
    quarantined already; the newest reason then stands, unless a person decided."""
    with transaction.atomic():
        row = Device.objects.select_for_update(no_key=True).get(pk=device.pk)
        before = row.state
        if before == Device.State.QUARANTINED and not row.state_cause:
            return False
        device_put(row, Device.State.QUARANTINED, reason=reason, cause=cause)
        if before != Device.State.QUARANTINED:
            searches_tell(row, DeviceQuarantined, row.state_reason)
            after = {"state": row.state, "reason": row.state_reason, "cause": cause.value}
            verb = VERBS[Device.State.QUARANTINED]
            action_on(verb=verb, on=("device", row.pk), user=None, key=None, before={"state": before}, after=after)
    device.refresh_from_db()
    return before != Device.State.QUARANTINED


def baselines_expire(*, device: Device, reason: str) -> None:
    """Have every baseline of the device measured again; pages say so until it is done."""
    with transaction.atomic():
        row = Device.objects.select_for_update(no_key=True).get(pk=device.pk)
        row.drifts, row.baselines_at = 0, timezone.now()
        row.save(update_fields=["drifts", "baselines_at"])
        state = {"state": row.state}
        after = {**state, "reason": clip(reason, REASON_CHARS)}
        action_on(verb=DRIFTED, on=("device", row.pk), user=None, key=None, before=state, after=after)


def device_put(row: Device, state: Device.State, *, reason: str = "", cause: str = "") -> None:
    row.state, row.state_cause, row.state_at = state.value, cause, timezone.now()
    row.state_reason = clip(reason, REASON_CHARS)
    row.save(update_fields=["state", "state_cause", "state_at", "state_reason"])
    if state == Device.State.ACTIVE:  # whatever it is, it counts from now on
        Device.objects.filter(pk=row.pk).update(faults=0, drifts=0)


def searches_tell(row: Device, kind: type[DeviceActivated | DeviceQuarantined], reason: str) -> None:
    """Every open search there hears of it, so that its page shows it at once."""
    for run in Run.objects.filter(device=row).exclude(state__in=Run.ENDED).order_by("pk"):
        event_write(run=run, event=kind(device=row.name, reason=reason))
