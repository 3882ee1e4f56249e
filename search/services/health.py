"""Whether a device still judges as it should: faults of the judge in a row, baselines that drift."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from judge.gpus import GpuHealth, gpu_health
from judge.models import Device, Evaluation
from judge.runner import Bench
from judge.services.calibrations import gpu_trouble
from judge.services.drift import Drift, baselines_forget, eager_drift
from judge.values import Verdict
from search.services.actions import action_on
from search.services.devices import device_quarantine

FAULTS = 3  # of the judge in a row
DRIFTS = 2  # evaluations in a row with an eager time that is off
HOLDS_STILL = timedelta(days=1)  # a device that drifts again within this is not measured on
DRIFTED = "device.drift"


def device_faulted(*, device: Device, message: str, health: Callable[[str], GpuHealth] = gpu_health) -> None:
    """The judge failed on `device`. The third time in a row, or when its GPU reports errors, it is quarantined."""
    trouble = gpu_trouble(device, health) if device.measures else ""
    if trouble:
        device_quarantine(device=device, cause=Device.Cause.GPU, reason=trouble)
        return
    mine = Device.objects.filter(pk=device.pk)
    mine.update(faults=F("faults") + 1)
    if mine.filter(faults__gte=FAULTS).exists():
        reason = f"The judge failed {FAULTS} times in a row. The last time: {message}"
        device_quarantine(device=device, cause=Device.Cause.FAULTS, reason=reason)


def device_judged(*, evaluation: Evaluation, bench: Bench) -> None:
    """Look at what a fresh evaluation says of its device."""
    device = evaluation.device
    if evaluation.verdict == Verdict.LOST:
        device_faulted(device=device, message=evaluation.message)
        return
    Device.objects.filter(pk=device.pk, faults__gt=0).update(faults=0)
    drift = eager_drift(evaluation) if device.measures else None
    if drift is not None:
        _drifted(evaluation, drift, bench)


def _drifted(evaluation: Evaluation, drift: Drift, bench: Bench) -> None:
    """Off twice in a row: all baselines of the device are measured again. The same within a day: it is quarantined."""
    with transaction.atomic():
        row = Device.objects.select_for_update().get(pk=evaluation.device_id)
        row.drifts = row.drifts + 1 if drift.far else 0
        if row.drifts < DRIFTS:
            row.save(update_fields=["drifts"])
            return
        now = timezone.now()
        again = row.drifted_at is not None and now - row.drifted_at < HOLDS_STILL
        row.drifts, row.drifted_at, row.baselines_at = 0, now, now
        row.save(update_fields=["drifts", "drifted_at", "baselines_at"])
        reason = (
            f"Eager {evaluation.problem.title} takes {drift.is_us:.1f} us, {drift.share:+.1%} against an earlier "
            "evaluation. All baselines of this device are measured again."
        )
        state = {"state": row.state}
        action_on(
            verb=DRIFTED, on=("device", row.pk), user=None, key=None, before=state, after={**state, "reason": reason}
        )
    baselines_forget(bench)
    if again:
        twice = f"Its baselines drifted twice within a day. {reason}"
        device_quarantine(device=row, cause=Device.Cause.DRIFT, reason=twice)
