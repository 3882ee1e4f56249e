"""Whether a device still judges as it should: faults of the judge in a row, baselines that drift."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from judge.bench.device.nvml import GpuHealth, gpu_health
from judge.bench.runner import Bench
from judge.devices.drift import Drift, baselines_forget, eager_drift
from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.selftest.noise_checks import gpu_trouble
from judge.values import Verdict
from search.engine.devices import baselines_expire, device_quarantine

FAULTS = 3  # of the judge in a row
DRIFTS = 2  # evaluations in a row with an eager time that is off
SELDOM = timedelta(hours=1)  # a problem with two speeds must not have everything measured again all the time


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
    """Off twice in a row: what is kept of torch.compile belongs to another time. All baselines are measured again."""
    now = timezone.now()
    with transaction.atomic():
        row = Device.objects.select_for_update(no_key=True).get(pk=evaluation.device_id)
        row.drifts = row.drifts + 1 if drift.far else 0
        row.save(update_fields=["drifts"])
        recently = row.baselines_at is not None and now - row.baselines_at < SELDOM
        if row.drifts < DRIFTS or recently:
            return
        words = f"Eager {evaluation.problem.title} takes {drift.words}. All baselines are measured again."
        baselines_expire(device=row, reason=words)
    baselines_forget(bench)
