"""Drain, quarantine and activate a device. Each act leaves an audit row; a key makes a repeated submit one act."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from judge.models import Device
from search.models import Run
from search.services.actions import ActionRefused, action_done, action_on
from search.services.runs import run_pause
from search.services.texts import clip

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

VERBS = {
    Device.State.ACTIVE: "device.activate",
    Device.State.DRAINING: "device.drain",
    Device.State.QUARANTINED: "device.quarantine",
}
REASON_CHARS = 300


def device_state_set(
    *, device: Device, state: Device.State, user: AbstractBaseUser | None, key: str | None = None, reason: str = ""
) -> list[Run]:
    """Put a device into `state`; returns the searches that were paused for it.

    A draining device takes no new searches and goes on with those it has. A quarantined one is not believed: its
    running searches are paused. The same key, or the state it is in already, changes nothing. Raises ActionRefused.
    """
    if device.kind == Device.Kind.EXTERNAL:
        raise ActionRefused(f"{device.name} only owns imported numbers; nothing is judged there.")
    verb = VERBS[state]
    with transaction.atomic():
        row = Device.objects.select_for_update().get(pk=device.pk)
        if action_done(key=key, verb=verb) is not None or row.state == state:
            return []
        before, row.state = row.state, state
        row.save(update_fields=["state"])
        running = Run.objects.filter(device=row, state=Run.State.RUNNING) if state == Device.State.QUARANTINED else ()
        paused = [run_pause(run=run, user=user) for run in running]
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
