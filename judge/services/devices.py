"""Which devices there are: the interpreter always, CUDA devices as nvidia-smi lists them. No torch, no CUDA context."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.utils import timezone

from judge.models import Device

_QUERY = "index,uuid,name,compute_cap,memory.total,driver_version"
Lister = Callable[[], str]


class DeviceMissing(Exception):
    """No such device; the message names those that exist and how one comes to be."""


@dataclass(frozen=True)
class Gpu:
    """One line of nvidia-smi. `ordinal` is the N of "cuda:N" in this process tree."""

    ordinal: int
    uuid: str
    title: str
    arch: str  # "sm_90"
    memory_mb: int
    driver: str


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


def nvidia_smi() -> str:
    """CSV lines of nvidia-smi, or "" when it is absent, fails or hangs: then there is no usable GPU."""
    command = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def parse_gpus(text: str, visible: str | None) -> list[Gpu]:
    """GPUs in the order that CUDA numbers them. `visible` is CUDA_VISIBLE_DEVICES: None means all, "" none.

    As in CUDA, the list ends at the first entry that names no GPU. Lines that do not parse are skipped.
    """
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 6 and cells[0].isdigit():
            found[cells[0]] = cells
    order = list(found)
    if visible is not None:
        order = []
        for entry in (part.strip() for part in visible.split(",")):
            match = entry if entry in found else _by_uuid(found, entry)
            if match is None:
                break
            order.append(match)
    return [_gpu(number, found[key]) for number, key in enumerate(order)]


def _by_uuid(found: dict[str, list[str]], entry: str) -> str | None:
    return next((key for key, cells in found.items() if entry.startswith("GPU-") and cells[1].startswith(entry)), None)


def _gpu(ordinal: int, cells: list[str]) -> Gpu:
    _, uuid, title, capability, memory, driver = cells
    digits = capability.replace(".", "")
    return Gpu(
        ordinal=ordinal,
        uuid=uuid,
        title=title,
        arch=f"sm_{digits}" if digits.isdigit() else "",
        memory_mb=int(memory) if memory.isdigit() else 0,
        driver=driver,
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


def _cuda(gpu: Gpu) -> Device:
    facts = {"uuid": gpu.uuid, "memory_mb": gpu.memory_mb, "driver": gpu.driver}
    device, _ = Device.objects.update_or_create(
        name=f"cuda:{gpu.ordinal}",
        defaults={
            "kind": Device.Kind.CUDA,
            "title": gpu.title[:120],
            "arch": gpu.arch,
            "facts": facts,
            "seen_at": timezone.now(),
        },
    )
    return device
