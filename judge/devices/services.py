"""Which devices there are: the interpreter always, CUDA devices as the NVIDIA driver lists them. Uses no torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from judge.bench.compiling.stage import COMPILE
from judge.bench.device.nvml import Gpu, gpus_here
from judge.bench.interpreting.targets import TARGETS
from judge.devices.models import Device

Lister = Callable[[], list[Gpu]]


class DeviceMissing(Exception):
    """No such device; the message names those that exist and how one comes to be."""


def devices_sync(*, lister: Lister | None = None) -> list[Device]:
    """Create or refresh the rows of this machine's devices; returns those that judge, the interpreter first.

    Rows of other machines are left alone: `seen_at` tells when each device was last seen.
    """
    if settings.JUDGE_TARGET in TARGETS:
        compile_device(target=settings.JUDGE_TARGET)
    rows = [_interpreter()]
    rows += [_cuda(gpu) for gpu in (lister or gpus_here)()]
    return rows


def device_get(*, name: str) -> Device:
    """The device called `name`. Raises DeviceMissing with what is there and how to add a GPU."""
    judging = Device.objects.filter(kind__in=(Device.Kind.INTERPRETER, Device.Kind.CUDA))
    device = judging.filter(name=name).first()
    if device is not None:
        return device
    if name.startswith(COMPILE):
        raise DeviceMissing(f"{name} only compiles: nothing is judged there. judge_compile compiles kernels for it.")
    known = judging.order_by("id").values_list("name", flat=True)
    raise DeviceMissing(
        f"There is no device {name!r}. Known: {', '.join(known) or 'none'}. A GPU appears as cuda:N once the "
        "NVIDIA driver lists it on this machine (see `nvidia-smi -L`); without one, use the device 'interpreter'."
    )


def _interpreter() -> Device:
    target = settings.JUDGE_TARGET
    device, _ = Device.objects.update_or_create(
        name="interpreter",
        defaults={
            "kind": Device.Kind.INTERPRETER,
            "title": f"Interpreter (CPU), times MODELLED for {target}",
            "arch": target,
            "seen_at": timezone.now(),
        },
    )
    return device


def compile_device(*, target: str) -> Device:
    """The row that owns what was only compiled for `target`. Nobody serves it: kernels come by judge_compile."""
    title = f"Compiler for {TARGETS[target].title}: nothing runs"
    device, _ = Device.objects.update_or_create(
        name=f"{COMPILE}{target}",
        defaults={"kind": Device.Kind.COMPILE, "title": title, "arch": target, "seen_at": timezone.now()},
    )
    return device


def device_learn(*, device: Device, dram_gb_s: float) -> None:
    """Keep the largest memory bandwidth that was seen on this device, with the day."""
    with transaction.atomic():
        row = Device.objects.select_for_update().only("facts").get(pk=device.pk)
        if dram_gb_s > (row.facts.get("measured") or {}).get("dram_gb_s", 0.0):
            row.facts = {**row.facts, "measured": {"dram_gb_s": dram_gb_s, "at": timezone.now().isoformat()}}
            row.save(update_fields=["facts"])


def _measured(gpu: Gpu) -> dict[str, Any]:
    """What was measured on this very GPU; another one may stand in its place now."""
    known = Device.objects.filter(name=f"cuda:{gpu.ordinal}", facts__uuid=gpu.uuid).first()
    return {"measured": known.facts["measured"]} if known and "measured" in known.facts else {}


def _cuda(gpu: Gpu) -> Device:
    successor = Device.objects.filter(name=f"cuda:{gpu.ordinal}").exclude(facts__uuid=gpu.uuid)
    successor.update(baselines_at=timezone.now(), drifts=0, faults=0)
    facts = {"uuid": gpu.uuid, "memory_mb": gpu.memory_mb, "driver": gpu.driver}
    device, _ = Device.objects.update_or_create(
        name=f"cuda:{gpu.ordinal}",
        defaults={
            "kind": Device.Kind.CUDA,
            "title": gpu.title[:120],
            "arch": gpu.arch,
            "facts": facts | _measured(gpu),
            "remote": False,
            "seen_at": timezone.now(),
        },
    )
    return device
