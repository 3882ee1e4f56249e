"""Drain, quarantine, check and activate a device. Each act leaves an audit row; a key makes a repeated submit one act.

A quarantine by a person pauses the searches there. One by the judge itself lets them wait, so that they go on by
themselves once a check has passed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from adaexplore_site.audit import ActionRefused, action_done, action_on
from adaexplore_site.models import Action
from judge.models import Device, DeviceCheck
from judge.runner import Bench
from judge.services.device_checks import check_run
from judge.services.drift import baselines_forget, kernel_drift
from search.events import event_write
from search.models import Node, Run
from search.services.leases import QUEUED, RETRY
from search.services.runs import run_pause
from search.services.texts import clip

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

VERBS = {
    Device.State.ACTIVE: "device.activate",
    Device.State.DRAINING: "device.drain",
    Device.State.QUARANTINED: "device.quarantine",
}
CHECK, DRIFTED = "device.check", "device.drift"
REASON_CHARS = 300


def device_state_set(
    *, device: Device, state: Device.State, user: AbstractBaseUser | None, key: str | None = None, reason: str = ""
) -> list[Run]:
    """Put a device into `state`; returns the searches that were paused for it.

    A draining device takes no new searches and goes on with those it has. A quarantined one is not believed: its
    running searches are paused. The same key, or the state it is in already, changes nothing. Raises ActionRefused.
    """
    if not device.judges:
        owns = "only compiles" if device.kind == Device.Kind.COMPILE else "only owns imported numbers"
        raise ActionRefused(f"{device.name} {owns}; nothing is judged there.")
    verb = VERBS[state]
    with transaction.atomic():
        row = Device.objects.select_for_update(no_key=True).get(pk=device.pk)
        if action_done(key=key, verb=verb) is not None or row.state == state:
            return []
        before = row.state
        _put(row, state, reason=reason)
        if state == Device.State.ACTIVE:
            _go_on(row)
        paused = _paused(row, user) if state == Device.State.QUARANTINED else []
        action_on(
            verb=verb,
            on=("device", row.pk),
            user=user,
            key=key,
            before={"state": before},
            after={"state": state.value, "reason": clip(reason, REASON_CHARS), "paused": [run.pk for run in paused]},
        )
    device.state = row.state
    return paused


def device_quarantine(*, device: Device, cause: Device.Cause, reason: str) -> bool:
    """The judge stops believing a device: nothing more is judged there, and what waits says why. False when it was
    quarantined already; the newest reason then stands, unless a person decided."""
    with transaction.atomic():
        row = Device.objects.select_for_update(no_key=True).get(pk=device.pk)
        before = row.state
        if before == Device.State.QUARANTINED and not row.state_cause:
            return False
        _put(row, Device.State.QUARANTINED, reason=reason, cause=cause)
        if before != Device.State.QUARANTINED:
            _tell_searches(row, "device.quarantined", row.state_reason)
            after = {"state": row.state, "reason": row.state_reason, "cause": cause.value}
            verb = VERBS[Device.State.QUARANTINED]
            action_on(verb=verb, on=("device", row.pk), user=None, key=None, before={"state": before}, after=after)
    device.refresh_from_db()
    return before != Device.State.QUARANTINED


def device_check_ask(*, device: Device, user: AbstractBaseUser | None, key: str | None = None) -> Action | None:
    """Note that a person wants `device` checked; the caller sends it to the device's worker. None for a repeated
    submit. Raises ActionRefused where no worker of ours judges."""
    if not device.judges or device.remote:
        raise ActionRefused(f"No worker of this machine judges on {device.name}: it cannot be checked from here.")
    with transaction.atomic():
        if action_done(key=key, verb=CHECK) is not None:
            return None
        state = {"state": device.state}
        return action_on(verb=CHECK, on=("device", device.pk), user=user, key=key, before=state, after=state)


def device_check(
    *,
    device: Device,
    bench_for: Callable[[Device], Bench],
    asked: Action | None = None,
    calibrate: Callable[..., DeviceCheck] = check_run,
) -> DeviceCheck:
    """Calibrate a device and act on what came of it: outside the allowed, or with a kernel whose own time is off twice
    in a row, it is quarantined.

    When a person asked for it, passing ends a quarantine that the judge began.
    """
    found = calibrate(device=device, bench_for=bench_for)
    if not found.passed:
        device_quarantine(device=device, cause=Device.Cause(found.cause), reason=found.message)
    elif asked is not None:
        _release(device, asked)
    else:
        drift = kernel_drift(found)
        if drift is not None and drift.far:
            reason = f"The calibration kernel takes {drift.words}, twice in a row: a clock or power limit, or heat?"
            baselines_expire(device=device, reason=reason)
            baselines_forget(bench_for(device))
            device_quarantine(device=device, cause=Device.Cause.DRIFT, reason=reason)
    return found


def baselines_expire(*, device: Device, reason: str) -> None:
    """Have every baseline of the device measured again; pages say so until it is done."""
    with transaction.atomic():
        row = Device.objects.select_for_update(no_key=True).get(pk=device.pk)
        row.drifts, row.baselines_at = 0, timezone.now()
        row.save(update_fields=["drifts", "baselines_at"])
        state = {"state": row.state}
        after = {**state, "reason": clip(reason, REASON_CHARS)}
        action_on(verb=DRIFTED, on=("device", row.pk), user=None, key=None, before=state, after=after)


def _release(device: Device, asked: Action) -> None:
    with transaction.atomic():
        row = Device.objects.select_for_update(no_key=True).get(pk=device.pk)
        if row.state != Device.State.QUARANTINED or not row.state_cause:
            return
        _put(row, Device.State.ACTIVE)
        _go_on(row)
        reason = "Checked again, and it passed."
        action_on(
            verb=VERBS[Device.State.ACTIVE],
            on=("device", row.pk),
            user=asked.actor,
            key=None,
            before={"state": Device.State.QUARANTINED.value},
            after={"state": row.state, "reason": reason},
        )
    device.refresh_from_db()


def _put(row: Device, state: Device.State, *, reason: str = "", cause: str = "") -> None:
    row.state, row.state_cause, row.state_at = state.value, cause, timezone.now()
    row.state_reason = clip(reason, REASON_CHARS)
    row.save(update_fields=["state", "state_cause", "state_at", "state_reason"])
    if state == Device.State.ACTIVE:  # whatever it is, it counts from now on
        Device.objects.filter(pk=row.pk).update(faults=0, drifts=0)


def _paused(device: Device, user: AbstractBaseUser | None) -> list[Run]:
    """Pause what runs on the device. A search that ends in that moment needs no pause and stops nobody."""
    paused = []
    for run in Run.objects.filter(device=device, state=Run.State.RUNNING):
        with suppress(ActionRefused):
            paused.append(run_pause(run=run, user=user))
    return paused


def _go_on(row: Device) -> None:
    """What waited for the device is sent with the next reap, with all its attempts."""
    waiting = Node.objects.filter(run__device=row, state=Node.State.JUDGING, lease_owner__in=(QUEUED, RETRY))
    waiting.update(lease_until=timezone.now() - timedelta(microseconds=1), attempts=0)
    _tell_searches(row, "device.activated", "")


def _tell_searches(row: Device, kind: str, reason: str) -> None:
    """Every open search there hears of it, so that its page shows it at once."""
    for run in Run.objects.filter(device=row).exclude(state__in=Run.ENDED).order_by("pk"):
        event_write(run=run, kind=kind, payload={"device": row.name, "reason": reason})
