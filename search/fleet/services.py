"""Drain, quarantine, check and activate a device, and take an evaluation back from it, each with an audit row."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.text import clip
from judge.bench.runner import Bench
from judge.devices.drift import baselines_forget, kernel_drift
from judge.devices.models import Device, DeviceCheck
from judge.devices.services import REASON_CHARS, VERBS, baselines_expire, device_locked, device_put
from judge.selftest.noise_checks import check_run
from search.engine.completion import node_cancel, run_follow, run_locked
from search.engine.devices import device_quarantine, searches_tell
from search.engine.leases import QUEUE_S, QUEUED, RETRY
from search.records.events import DeviceActivated, LeaseExpired
from search.records.kinds import action_record
from search.records.log import event_write
from search.records.models import Node, Run
from search.records.queue import FollowUp
from search.runs.services import run_pause

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


CHECK = "device.check"


def device_state_set(
    *, device: Device, state: Device.State, user: AbstractBaseUser | None, key: str | None = None, reason: str = ""
) -> list[Run]:
    """Put a device into `state`; returns the searches that were paused for it.

    A draining device takes no new searches and goes on with those it has. A quarantined one is not trusted: its
    running searches are paused. The same key, or the state it is in already, changes nothing. Raises ActionRefused.
    """
    if not device.judges:
        raise ActionRefused(device.traits.nothing_judged % {"device": device.name})
    verb = VERBS[state]
    with transaction.atomic():
        row = device_locked(device.pk)
        if action_done(key=key, verb=verb) is not None or row.state == state:
            return []
        before = row.state
        device_put(row, state, reason=reason)
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


def device_check_ask(*, device: Device, user: AbstractBaseUser | None, key: str | None = None) -> AuditEntry | None:
    """Record that a check of `device` was asked for; the caller sends it to the device's worker. None for a repeated
    submit. Raises ActionRefused where no worker of ours judges."""
    if not device.served:
        text = _("No worker of this machine judges on %(device)s: it cannot be checked from here.")
        raise ActionRefused(text % {"device": device.name})
    with transaction.atomic():
        if action_done(key=key, verb=CHECK) is not None:
            return None
        state = {"state": device.state}
        return action_on(verb=CHECK, on=("device", device.pk), user=user, key=key, before=state, after=state)


def device_check(
    *,
    device: Device,
    bench_for: Callable[[Device], Bench],
    asked: AuditEntry | None = None,
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
            reason = f"The calibration kernel takes {drift.text}, twice in a row: a clock or power limit, or heat?"
            baselines_expire(device=device, reason=reason)
            baselines_forget(bench_for(device))
            device_quarantine(device=device, cause=Device.Cause.DRIFT, reason=reason)
    return found


def _release(device: Device, asked: AuditEntry) -> None:
    with transaction.atomic():
        row = device_locked(device.pk)
        if row.state != Device.State.QUARANTINED or not row.state_cause:
            return
        device_put(row, Device.State.ACTIVE)
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


def _paused(device: Device, user: AbstractBaseUser | None) -> list[Run]:
    """Pause what runs on the device. A search that ends in that moment needs no pause."""
    paused = []
    for run in Run.objects.filter(device=device, state=Run.State.RUNNING):
        with suppress(ActionRefused):
            paused.append(run_pause(run=run, user=user))
    return paused


def _go_on(row: Device) -> None:
    """What waited for the device is sent with the next reap, with all its attempts."""
    waiting = Node.objects.filter(run__device=row, state=Node.State.JUDGING, lease_owner__in=(QUEUED, RETRY))
    waiting.release(now=timezone.now(), attempts=0)
    searches_tell(row, DeviceActivated, "")


REVOKE, STOP = "node.revoke", "node.stop"


def node_revoke(*, node: Node, user: AbstractBaseUser | None, key: str | None = None) -> list[FollowUp]:
    """Free the node for the next worker; what the caller then sends. What its worker still finds out tells nothing.

    It uses up no attempt. Raises ActionRefused when no worker judges it any more.
    """
    now = timezone.now()
    with transaction.atomic():
        run = run_locked(node.run_id)
        if run is None:
            raise ActionRefused(_("This search no longer exists."))
        if action_done(key=key, verb=REVOKE) is not None:
            return []
        held = Node.objects.filter(pk=node.pk, state=Node.State.JUDGING)
        if not held.on_workers(now).renew(now=now, for_s=QUEUE_S, lease_owner=QUEUED, attempts=F("attempts") - 1):
            text = _("Node %(number)d is not on a device any more: it was judged or is queued already.")
            raise ActionRefused(text % {"number": node.number})
        who = f" by {user.get_username()}" if user else ""
        message = f"Taken back from {run.device.name}{who}."
        event_write(run=run, event=LeaseExpired(number=node.number, message=message))
        after = {"number": node.number, "device": run.device.name}
        action_record(verb=REVOKE, run=run, user=user, key=key, after=after)
    return [FollowUp("judge_node", node.pk, queue=run.device.queue)]


def node_stop(*, node: Node, user: AbstractBaseUser | None, key: str | None = None) -> list[FollowUp]:
    """Withdraw a node whose kernel waits for its device or is on it; what the caller then sends. Its worker sees that
    within a second and ends its processes. The step is not used up: the search makes another one.

    Raises ActionRefused when it is not judged any more.
    """
    now = timezone.now()
    with transaction.atomic():
        run = run_locked(node.run_id)
        if run is None:
            raise ActionRefused(_("This search no longer exists."))
        if action_done(key=key, verb=STOP) is not None:
            return []
        found = Node.objects.filter(pk=node.pk, state=Node.State.JUDGING).first()
        by = f" by {user.get_username()}" if user else ""
        if found is None or not node_cancel(run=run, node=found, why=f"Its evaluation was stopped{by}."):
            text = _("Node %(number)d neither waits for a device nor is on one: it has ended, or is still proposed.")
            raise ActionRefused(text % {"number": node.number})
        after = {"number": node.number, "device": run.device.name}
        action_record(verb=STOP, run=run, user=user, key=key, after=after)
        return run_follow(run=run, now=now)
