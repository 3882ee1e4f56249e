"""The calibration of one device: a kernel against itself on its bench, its GPU's own error count, stored as a row."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings

from adaexplore_site.core.text import storable_text
from judge.bench.device.nvml import GpuHealth, gpu_health
from judge.bench.runner import Bench
from judge.devices.benches import toolchain_of, with_retries
from judge.devices.models import Device, DeviceCheck
from judge.selftest.entries import Entry
from judge.selftest.noise import Noise, NotRight, calibration_kernel, check_right, measure_noise
from judge.values import JudgeError

Health = Callable[[str], GpuHealth]
MESSAGE_CHARS = 1000


def check_run(
    *, device: Device, bench_for: Callable[[Device], Bench], health: Health = gpu_health, kernel: Entry | None = None
) -> DeviceCheck:
    """Calibrate `device` and store what came of it.

    What is outside the allowed noise floor is measured once more, at once, before it counts. A fault of the judge is
    retried twice; then it is the device that did not pass. Where nothing is timed, the kernel only has to be right.
    """
    found = DeviceCheck(device=device, identity=identity_of(device))
    if device.measures:
        seen = health(found.identity)
        found.gpu_errors = seen.uncorrected
        if trouble := _trouble(device, seen):
            _failed(found, Device.Cause.GPU, trouble)
    if found.passed:
        timed = device.measures
        entry = kernel or calibration_kernel(timed=timed)
        try:
            bench = bench_for(device)
            found.toolchain = toolchain_of(bench)
            if timed:
                noise = _measured(found, with_retries(lambda: measure_noise(bench, entry)))
                if not noise.passed:
                    noise.save()
                    same = {name: getattr(noise, name) for name in ("device", "identity", "toolchain", "gpu_errors")}
                    found = _measured(DeviceCheck(**same), with_retries(lambda: measure_noise(bench, entry)))
            else:
                with_retries(lambda: check_right(bench, entry))
        except NotRight as error:
            _failed(found, Device.Cause.FAULTS, str(error))
        except JudgeError as error:
            _failed(found, Device.Cause.FAULTS, f"the judge failed three times in a row: {error}")
    found.save()
    return found


def identity_of(device: Device) -> str:
    """What distinguishes this GPU from its successor under the same name; empty without a GPU."""
    return str(device.facts.get("uuid") or "")[:80]


def check_last(device: Device) -> DeviceCheck | None:
    """The newest one of the GPU that the device now is."""
    return DeviceCheck.objects.filter(device=device, identity=identity_of(device)).order_by("-id").first()


def noise_last(device: Device) -> DeviceCheck | None:
    """The newest one that measured a noise floor; None where nothing was timed yet."""
    rows = DeviceCheck.objects.filter(device=device, identity=identity_of(device), noise_floor__isnull=False)
    return rows.order_by("-id").first()


def gpu_trouble(device: Device, health: Health = gpu_health) -> str:
    """What the driver has against this GPU: uncorrected errors since the last calibration, or that it is gone."""
    return _trouble(device, health(identity_of(device)))


def _trouble(device: Device, seen: GpuHealth) -> str:
    identity = identity_of(device)
    if not seen.listed:
        return f"the NVIDIA driver does not list this GPU ({identity}) any more"
    before = DeviceCheck.objects.filter(device=device, identity=identity, gpu_errors__isnull=False)
    new = (seen.uncorrected or 0) - (before.order_by("-id").values_list("gpu_errors", flat=True).first() or 0)
    message = f"its driver reports {new} new uncorrected memory errors; `nvidia-smi -q -d ECC` says where"
    return message if new > 0 else ""


def _measured(found: DeviceCheck, noise: Noise) -> DeviceCheck:
    found.noise_floor, found.allowed = noise.floor, settings.JUDGE_NOISE_FLOOR
    found.ratio, found.ratio_low, found.ratio_high = noise.ratio, noise.low, noise.high
    found.pairs, found.kernel_us = noise.n, noise.kernel_us
    if noise.floor > settings.JUDGE_NOISE_FLOOR:
        _failed(
            found,
            Device.Cause.NOISE,
            f"a kernel differs from itself by {noise.floor:.1%}, allowed are {settings.JUDGE_NOISE_FLOOR:.1%}: look "
            "for other work on this GPU or its processors, for heat, and for a power limit",
        )
    return found


def _failed(found: DeviceCheck, cause: Device.Cause, message: str) -> None:
    found.cause, found.message = cause.value, storable_text(message)[:MESSAGE_CHARS]
