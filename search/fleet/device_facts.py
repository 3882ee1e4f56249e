"""What is shown of devices: state, trust, published and measured peaks, verdicts, the sandbox that was last seen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Max

from judge.bench.interpreting.targets import TARGETS
from judge.devices.models import Device
from judge.evaluations.facts import Layer, sandbox
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from judge.selftest.trust import Tested, trusts
from judge.values import Verdict

RECENT = 20
_HIDDEN = frozenset({"measured", "sandbox", "noise_floor"})  # facts that have a place of their own
_NAMES = {"memory_mb": "memory, MiB", "uuid": "UUID"}


@dataclass(frozen=True)
class DeviceRow:
    """One line of the fleet: how many verdicts, how many of them passes, the last one's time."""

    device: Device
    tested: Tested | None  # None where no self-test can run
    verdicts: int
    passed: int
    last_at: datetime | None


def device_rows(devices: Sequence[Device], *, now: datetime) -> list[DeviceRow]:
    """A constant number of queries for any number of devices."""
    counted = Evaluation.objects.filter(device__in=devices).order_by().values_list("device", "verdict")
    totals: dict[int, int] = {}
    passed: dict[int, int] = {}
    last: dict[int, datetime] = {}
    for device_id, verdict, count, newest in counted.annotate(Count("pk"), Max("created_at")):
        totals[device_id] = totals.get(device_id, 0) + count
        last[device_id] = max(last.get(device_id, newest), newest)
        if verdict == Verdict.PASS:
            passed[device_id] = count
    tested = trusts([device for device in devices if device.judges], now=now)
    return [
        DeviceRow(
            device, tested.get(device.pk), totals.get(device.pk, 0), passed.get(device.pk, 0), last.get(device.pk)
        )
        for device in devices
    ]


@dataclass(frozen=True)
class Peak:
    """One figure of a GPU as text, and where it comes from."""

    name: str
    value: str
    source: str  # "published", "measured"


def peaks(device: Device) -> list[Peak]:
    """Bandwidth and arithmetic: as published for the architecture, and what was measured on the device itself."""
    found = []
    measured = device.facts.get("measured") or {}
    if measured.get("dram_gb_s"):
        when = str(measured.get("at", ""))[:10]
        found.append(Peak("memory bandwidth", f"{measured['dram_gb_s'] / 1e3:.2f} TB/s", f"measured {when}".strip()))
    target = TARGETS.get(device.arch)
    if target is None:
        return found
    published = f"published for {target.title}"
    found.append(Peak("memory bandwidth", f"{target.dram_gb_s / 1e3:.2f} TB/s", published))
    for name, tflops in (("fp32", target.fp32_tflops), ("TF32", target.tf32_tflops), ("bf16", target.bf16_tflops)):
        found.append(Peak(f"{name} arithmetic", f"{tflops:g} TFLOP/s", published))
    return found


def facts(device: Device) -> list[tuple[str, str]]:
    """(name, value) of the plain facts of a device."""
    rows = [(_NAMES.get(name, name.replace("_", " ")), value) for name, value in device.facts.items()]
    hidden = {_NAMES.get(name, name.replace("_", " ")) for name in _HIDDEN}
    return [(name, str(value)[:200]) for name, value in rows if name not in hidden and value not in (None, "", {})]


@dataclass(frozen=True)
class Record:
    """What a device has judged: verdicts with their counts, how many on degenerate problems, the newest ones."""

    verdicts: tuple[tuple[str, int], ...]
    total: int
    degenerate: int
    recent: tuple[Evaluation, ...]
    layers: tuple[Layer, ...]
    toolchain: str


def record(device: Device) -> Record:
    """Four queries; sources, logs and reports but the newest are left where they are."""
    rows = device.evaluations.all()
    groups = list(rows.order_by().values_list("verdict", "problem__state").annotate(Count("pk")))
    verdicts: dict[str, int] = {}
    for verdict, _, count in groups:
        verdicts[verdict] = verdicts.get(verdict, 0) + count
    recent = rows.select_related("problem").order_by("-id")
    recent = recent.defer("source", "report", "message", "problem__source", "problem__admission")
    newest = rows.order_by("-id").values_list("report__environment", "toolchain").first() or (None, "")
    return Record(
        verdicts=tuple(sorted(verdicts.items(), key=lambda item: (-item[1], item[0]))),
        total=sum(verdicts.values()),
        degenerate=sum(count for _, state, count in groups if state == Problem.State.DEGENERATE),
        recent=tuple(recent[:RECENT]),
        layers=tuple(sandbox(_environment(newest[0], device))),
        toolchain=str(newest[1] or ""),
    )


def _environment(found: Any, device: Device) -> dict[str, Any]:
    return found if isinstance(found, dict) else {"sandbox": device.facts.get("sandbox") or {}}


def ordered(devices: Iterable[Device]) -> list[Device]:
    """Those that judge first, then those that only compile, then those that only own imported numbers."""
    return sorted(
        devices,
        key=lambda device: (device.kind == Device.Kind.EXTERNAL, not device.judges, device.remote, device.name),
    )
