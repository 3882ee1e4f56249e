"""The machine that an outcome was made on: whether it is the one that its device stands for."""

from __future__ import annotations

from typing import Any

from django.conf import settings

from judge.batch.lines import Returned
from judge.devices.models import Device, DeviceCheck
from judge.selftest.noise import Noise
from judge.values import Outcome


class OutcomesRefused(Exception):
    """Nothing of the file was imported; the message names the line and the reason, `reason` is that alone."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


def refused(number: int, name: str, reason: str) -> OutcomesRefused:
    return OutcomesRefused(f"Line {number}, job {name[:12]}: {reason}. Nothing was imported.", reason)


def machine_check(number: int, line: Returned, device: Device) -> None:
    """The machine must be the one the device stands for; the first outcome says which GPU that is."""
    mark = line.fingerprint
    if mark.get("kind") != device.kind:
        raise refused(number, line.id, f"it was judged on {mark.get('kind')!r}, {device.name} is {device.kind!r}")
    if mark.get("arch") != device.arch:
        raise refused(number, line.id, f"it was judged on {mark.get('arch')!r}, {device.name} is {device.arch!r}")
    if not mark.get("toolchain"):
        raise refused(number, line.id, "it does not say with which toolchain it was judged")
    if isinstance(line.outcome, Outcome) and any(one.basis != device.basis for one in line.outcome.timings):
        raise refused(number, line.id, f"times on {device.name} must be {device.basis}")
    gpu = mark.get("gpu") or {}
    if device.is_gpu and not gpu.get("uuid"):
        raise refused(number, line.id, "it does not say on which GPU it was judged")
    if (noise := _noise_of(number, line)) is not None and noise.floor > settings.JUDGE_NOISE_FLOOR:
        text = f"its GPU differs from itself by {noise.floor:.1%}, allowed are {settings.JUDGE_NOISE_FLOOR:.1%}"
        raise refused(number, line.id, text)
    if device.pooled:
        _check_class(number, line, device, gpu)
        return
    known = device.facts.get("uuid")
    if known and gpu.get("uuid") != known:
        raise refused(number, line.id, f"it was judged on another GPU than {device.name}: {ANOTHER_GPU}")
    if gpu and not known:
        device.facts = {**device.facts, **{name: gpu.get(name) for name in ("uuid", "memory_mb", "driver")}}
        device.title = str(gpu.get("title") or device.title)[:120]
        device.save(update_fields=["facts", "title"])


def _noise_of(number: int, line: Returned) -> Noise | None:
    """What the GPU measured of itself before; None where it measured nothing, as for a job file."""
    found = line.fingerprint.get("noise")
    if found is None:
        return None
    try:
        return Noise(**found)
    except (TypeError, ValueError) as error:
        raise refused(number, line.id, "its noise floor cannot be read") from error


def noise_keep(number: int, line: Returned, device: Device) -> None:
    """Keep the noise floor of the very GPU, once for each time that it was measured."""
    noise = _noise_of(number, line)
    if noise is None or not device.is_gpu:
        return
    figures = {"noise_floor": noise.floor, "ratio": noise.ratio, "ratio_low": noise.low, "ratio_high": noise.high}
    DeviceCheck.objects.get_or_create(
        device=device,
        identity=str((line.fingerprint.get("gpu") or {}).get("uuid"))[:80],
        **figures,
        kernel_us=noise.kernel_us,
        defaults={
            "toolchain": str(line.fingerprint["toolchain"])[:120],
            "pairs": noise.n,
            "allowed": settings.JUDGE_NOISE_FLOOR,
        },
    )


CLASS = {"title": "model", "driver": "driver", "toolchain": "torch, Triton and target"}
ANOTHER_GPU = "enroll that one by itself, or both as one class (judge_enroll_device --class)"


def _check_class(number: int, line: Returned, device: Device, gpu: dict[str, Any]) -> None:
    """GPUs of one class are of one model, with one driver, torch and Triton; the first outcome says which."""
    found = {"title": gpu.get("title"), "driver": gpu.get("driver"), "toolchain": line.fingerprint["toolchain"]}
    known = device.facts.get("class")
    if known is None:
        device.facts = {**device.facts, **{name: found[name] for name in ("driver", "toolchain")}, "class": found}
        device.title = str(found["title"] or device.title)[:120]
        device.save(update_fields=["facts", "title"])
        return
    for name, label in CLASS.items():
        if found[name] != known[name]:
            text = (
                f"its {label} is {found[name]}, that of the class {device.name} is {known[name]}: enroll another class"
            )
            raise refused(number, line.id, text)
