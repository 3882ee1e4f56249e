"""Which devices there are: the interpreter always, CUDA devices as nvidia-smi lists them. No torch, no CUDA context."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from judge.gpus import Gpu, nvidia_smi, parse_gpus
from judge.models import Device

Lister = Callable[[], str]


class DeviceMissing(Exception):
    """No such device; the message names those that exist and how one comes to be."""


def devices_sync(*, lister: Lister | None = None) -> list[Device]:
    """Create or refresh the rows of the devices of this machine; returns them, the interpreter first.

    Rows of other machines are left alone: `seen_at` tells when each device was last seen.
    """
    rows = [_interpreter()]
    rows += [_cuda(gpu) for gpu in parse_gpus((lister or nvidia_smi)(), os.environ.get("CUDA_VISIBLE_DEVICES"))]
    return rows


def device_get(*, name: str) -> Device:
    """The device called `name`. Raises DeviceMissing with what is there and how to add a GPU."""
    device = Device.objects.filter(name=name).exclude(kind=Device.Kind.EXTERNAL).first()
    if device is not None:
        return device
    known = Device.objects.exclude(kind=Device.Kind.EXTERNAL).order_by("id").values_list("name", flat=True)
    raise DeviceMissing(
        f"There is no device {name!r}. Known: {', '.join(known) or 'none'}. A GPU appears as cuda:N once nvidia-smi "
        "lists it on this machine; without one, use the device 'interpreter'."
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
    successor.update(baselines_at=timezone.now(), drifted_at=None, drifts=0, faults=0)
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
