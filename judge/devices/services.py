"""Devices: which there are, enrolment on other machines, state and health. Uses no torch."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from adaexplore_site.core.audit import action_on
from adaexplore_site.core.text import clip
from judge.bench.compiling.stage import COMPILE
from judge.bench.device.nvml import Gpu, gpus_here
from judge.bench.interpreting.targets import TARGETS
from judge.devices.keys import BadKey, DeviceKey, make_key, read_key
from judge.devices.models import Device
from judge.selftest.models import SelfTest

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
    judging = Device.objects.judging()
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
    """The row that owns what was only compiled for `target`. No worker serves it: kernels come by judge_compile."""
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


def judging_devices() -> QuerySet[Device]:
    """Active devices that a worker of ours serves, the interpreter first."""
    return served_devices().filter(state=Device.State.ACTIVE)


def device_seen(*, device: Device, now: datetime) -> None:
    """The machine of an enrolled device asked for work; written twice a minute at most."""
    stale = Q(seen_at=None) | Q(seen_at__lt=now - timedelta(seconds=30))
    Device.objects.filter(stale, pk=device.pk).update(seen_at=now)


def search_devices() -> QuerySet[Device]:
    """Active devices that a search may start on: those that a worker of ours serves, then those of other machines."""
    active = Device.objects.judging().filter(state=Device.State.ACTIVE)
    return active.order_by("remote", "-kind", "name")


def served_devices() -> QuerySet[Device]:
    """Every device that a worker of ours serves, whatever its state: a draining one still ends what it began."""
    return Device.objects.served().order_by("-kind", "name")


def device_trusted(device: Device) -> bool:
    """Whether what this device says may become a best: not when its last finished self-test missed anything."""
    finished = SelfTest.objects.filter(device=device, state=SelfTest.State.FINISHED)
    return not finished.order_by("-id").values_list("red", flat=True).first()


FOLDER = "device_keys"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,59}")
_ARCH = re.compile(r"sm_\d{2,3}")


class EnrolmentRefused(Exception):
    """The device cannot be enrolled; the message says what to change. Nothing was written."""


def device_enroll(*, name: str, kind: Device.Kind, arch: str, pooled: bool = False) -> tuple[Device, Path]:
    """Make the device's row and its key file (mode 0600). Raises EnrolmentRefused.

    `pooled`: a device class, which any GPU of one model with one driver, torch and Triton may serve.
    """
    if not _NAME.fullmatch(name) or name == "interpreter" or name.startswith("external"):
        raise EnrolmentRefused(
            f"{name!r} is not a valid name: use up to 60 letters, digits and . _ : -, such as lab-h200"
        )
    if not _ARCH.fullmatch(arch):
        raise EnrolmentRefused(f"{arch!r} is not an architecture: use for example sm_90")
    if name in {f"cuda:{gpu.ordinal}" for gpu in gpus_here()}:
        raise EnrolmentRefused(f"{name} is a GPU of this machine and needs no enrolment")
    known = Device.objects.filter(name=name).first()
    if known is not None and known.pooled != pooled and known.evaluations.exists():
        raise EnrolmentRefused(
            f"{name} has verdicts as {'a class' if known.pooled else 'one GPU'}: choose another name"
        )
    if known is not None and known.kind != kind:
        raise EnrolmentRefused(f"{name} already exists and is of kind {known.kind}")
    path = key_path(name)
    try:
        make_key(path, name)
    except BadKey as error:
        raise EnrolmentRefused(f"{error}: the device is enrolled. Remove the file to give it a new key.") from error
    try:
        with transaction.atomic():
            device, _ = Device.objects.update_or_create(
                name=name,
                defaults={"remote": True, "arch": arch, "pooled": pooled},
                create_defaults={
                    "kind": kind,
                    "title": f"{name} ({'other machines' if pooled else 'another machine'})",
                    "remote": True,
                    "arch": arch,
                    "pooled": pooled,
                },
            )
    except BaseException:
        path.unlink()
        raise
    return device, path


def key_path(name: str) -> Path:
    """Where the key of a device lies."""
    return Path(settings.DATA_DIR) / FOLDER / f"{name.replace(':', '-')}.key"


def enrolled_keys() -> dict[str, DeviceKey]:
    """Keys by device name. Raises BadKey for a file that is malformed or readable by others."""
    folder = key_path("any").parent
    found = [read_key(path) for path in sorted(folder.glob("*.key"))] if folder.is_dir() else []
    return {key.device: key for key in found}


VERBS = {
    Device.State.ACTIVE: "device.activate",
    Device.State.DRAINING: "device.drain",
    Device.State.QUARANTINED: "device.quarantine",
}
DRIFTED = "device.drift"
REASON_CHARS = 300
FAULTS = 3  # of the judge in a row
DRIFTS = 2  # evaluations in a row with an eager time that is off
SELDOM = timedelta(hours=1)  # between two times that all baselines of a device are measured again


def device_locked(device_id: int) -> Device:
    """The row, locked until the caller's transaction ends."""
    return Device.objects.select_for_update(no_key=True).get(pk=device_id)


def device_put(row: Device, state: Device.State, *, reason: str = "", cause: str = "") -> None:
    """Write the state of a locked row. An activated device starts again without faults and drifts."""
    row.state, row.state_cause, row.state_at = state.value, cause, timezone.now()
    row.state_reason = clip(reason, REASON_CHARS)
    if state == Device.State.ACTIVE:
        row.faults = row.drifts = 0
    row.save(update_fields=["state", "state_cause", "state_at", "state_reason", "faults", "drifts"])


def device_quarantine(row: Device, *, cause: Device.Cause, reason: str) -> bool:
    """Quarantine a locked row because of what the judge saw, with an audit row. False when it was quarantined already;
    the newest reason then stands, unless a person decided."""
    before = row.state
    if before == Device.State.QUARANTINED and not row.state_cause:
        return False
    device_put(row, Device.State.QUARANTINED, reason=reason, cause=cause)
    if before == Device.State.QUARANTINED:
        return False
    after = {"state": row.state, "reason": row.state_reason, "cause": cause.value}
    verb = VERBS[Device.State.QUARANTINED]
    action_on(verb=verb, on=("device", row.pk), user=None, key=None, before={"state": before}, after=after)
    return True


def external_device(*, name: str, title: str) -> Device:
    """The device that owns imported numbers, locked until the caller's transaction ends; made when it is missing."""
    while True:  # removed between the two queries, it is made again
        known, _ = Device.objects.get_or_create(name=name, defaults={"kind": Device.Kind.EXTERNAL, "title": title})
        found = Device.objects.select_for_update().filter(pk=known.pk).first()
        if found is not None:
            return found


def faults_count(device: Device) -> bool:
    """Count a fault of the judge; True when it is one too many."""
    mine = Device.objects.filter(pk=device.pk)
    mine.update(faults=F("faults") + 1)
    return mine.filter(faults__gte=FAULTS).exists()


def faults_clear(device: Device) -> None:
    """The judge worked: faults are counted anew."""
    Device.objects.filter(pk=device.pk, faults__gt=0).update(faults=0)


def drift_count(device: Device, *, far: bool, reason: str) -> bool:
    """Count an eager time that is off. True when there were too many in a row: all baselines are measured again."""
    with transaction.atomic():
        row = device_locked(device.pk)
        row.drifts = row.drifts + 1 if far else 0
        row.save(update_fields=["drifts"])
        recently = row.baselines_at is not None and timezone.now() - row.baselines_at < SELDOM
        if row.drifts < DRIFTS or recently:
            return False
        baselines_expire(device=row, reason=reason)
    return True


def baselines_expire(*, device: Device, reason: str) -> None:
    """Have every baseline of the device measured again; pages say so until it is done."""
    with transaction.atomic():
        row = device_locked(device.pk)
        row.drifts, row.baselines_at = 0, timezone.now()
        row.save(update_fields=["drifts", "baselines_at"])
        state = {"state": row.state}
        after = {**state, "reason": clip(reason, REASON_CHARS)}
        action_on(verb=DRIFTED, on=("device", row.pk), user=None, key=None, before=state, after=after)
