"""Whether a device still judges as it should: faults of the judge in a row, baselines that drift. A quarantine by the
judge lets the searches there wait, so that they go on by themselves once a check has passed.
"""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction

from judge.bench.device.nvml import GpuHealth, gpu_health
from judge.bench.runner import Bench
from judge.devices import services
from judge.devices.drift import baselines_forget, eager_drift
from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.evaluations.services import UNCLEAR
from judge.selftest.noise_checks import gpu_trouble
from judge.values import Verdict
from search.records.events import DeviceActivated, DeviceQuarantined
from search.records.log import event_write
from search.records.models import Run


def device_quarantine(*, device: Device, cause: Device.Cause, reason: str) -> None:
    """Judge nothing more on a device because of what the judge saw; the logs of its searches say why they wait."""
    with transaction.atomic():
        row = services.device_locked(device.pk)
        if services.device_quarantine(row, cause=cause, reason=reason):
            searches_tell(row, DeviceQuarantined, row.state_reason)
    device.refresh_from_db()


def searches_tell(row: Device, kind: type[DeviceActivated | DeviceQuarantined], reason: str) -> None:
    """Write an event into the log of every open search on the device."""
    for run in Run.objects.filter(device=row).exclude(state__in=Run.ENDED).order_by("pk"):
        event_write(run=run, event=kind(device=row.name, reason=reason))


def device_faulted(*, device: Device, message: str, health: Callable[[str], GpuHealth] = gpu_health) -> None:
    """The judge failed on `device`. The third time in a row, or when its GPU reports errors, it is quarantined."""
    trouble = gpu_trouble(device, health) if device.measures else ""
    if trouble:
        device_quarantine(device=device, cause=Device.Cause.GPU, reason=trouble)
    elif services.faults_count(device):
        reason = f"The judge failed {services.FAULTS} times in a row. The last time: {message}"
        device_quarantine(device=device, cause=Device.Cause.FAULTS, reason=reason)


def device_judged(*, evaluation: Evaluation, bench: Bench) -> None:
    """Look at what a fresh evaluation says of its device. After two eager times in a row that are off, the stored times
    of torch.compile no longer fit: all baselines are measured again."""
    device = evaluation.device
    if evaluation.reason == UNCLEAR:
        return
    if evaluation.verdict == Verdict.LOST:
        device_faulted(device=device, message=evaluation.message)
        return
    services.faults_clear(device)
    drift = eager_drift(evaluation) if device.measures else None
    if drift is not None:
        reason = f"Eager {evaluation.problem.title} takes {drift.text}. All baselines are measured again."
        if services.drift_count(device, far=drift.far, reason=reason):
            baselines_forget(bench)
