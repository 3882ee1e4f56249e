"""The fleet as it is now: state, trust and peaks of each device, what it works on, what waits for it, its GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.core.cache import cache
from django.db.models import Count, Max, Min, Q
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from judge.bench.device.nvml import GpuReading, gpu_readings
from judge.bench.interpreting.targets import TARGETS
from judge.devices.benches import SILENT_S
from judge.devices.models import Device, DeviceCheck
from judge.evaluations.conditions import sandbox
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from judge.problems.preflight import Preflight, preflights_unfinished
from judge.selftest.trust import Tested, trusts
from judge.values import Verdict
from search.rechecks.models import Recheck
from search.records.models import Node

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

RECENT = 20
_HIDDEN = frozenset({"measured", "sandbox", "noise_floor", "class"})  # facts that have a place of their own
_NAMES = {"memory_mb": "memory, MiB", "uuid": "UUID"}


def peaks(device: Device) -> list[tuple[str, str, str]]:
    """(name, value, source) of bandwidth and arithmetic: as published for the architecture, and as measured here."""
    found = []
    measured = device.facts.get("measured") or {}
    if measured.get("dram_gb_s"):
        when = gettext("measured %(when)s") % {"when": str(measured.get("at", ""))[:10]}
        found.append(
            (
                gettext("memory bandwidth"),
                f"{measured['dram_gb_s'] / 1e3:.2f} TB/s",
                when.strip(),
            )
        )
    target = TARGETS.get(device.arch)
    if target is None:
        return found
    published = gettext("published for %(gpu)s") % {"gpu": target.title}
    found.append((gettext("memory bandwidth"), f"{target.dram_gb_s / 1e3:.2f} TB/s", published))
    for name, tflops in (("fp32", target.fp32_tflops), ("TF32", target.tf32_tflops), ("bf16", target.bf16_tflops)):
        found.append((gettext("%(format)s arithmetic") % {"format": name}, f"{tflops:g} TFLOP/s", published))
    return found


def facts(device: Device) -> list[tuple[str, str]]:
    """(name, value) of the plain facts of a device."""
    rows = [(_NAMES.get(name, name.replace("_", " ")), value) for name, value in device.facts.items()]
    hidden = {_NAMES.get(name, name.replace("_", " ")) for name in _HIDDEN}
    return [(name, str(value)[:200]) for name, value in rows if name not in hidden and value not in (None, "", {})]


@dataclass(frozen=True)
class ClassGpu:
    """A GPU that has served a device class: its UUID, its verdicts, the newest one, and its newest noise check."""

    uuid: str
    verdicts: int
    last_at: datetime
    check: DeviceCheck | None


def class_gpus(device: Device) -> list[ClassGpu]:
    """The GPUs of a device class, the busiest first; none of other devices."""
    if not device.pooled:
        return []
    checks = {check.identity: check for check in DeviceCheck.objects.filter(device=device).order_by("pk")}
    rows = device.evaluations.exclude(gpu="").order_by().values_list("gpu").annotate(Count("pk"), Max("created_at"))
    found = [ClassGpu(uuid, count, last, checks.get(uuid)) for uuid, count, last in rows]
    return sorted(found, key=lambda one: (-one.verdicts, one.uuid))


def record(device: Device) -> dict[str, Any]:
    """What a device has judged: verdicts with their counts, how many on degenerate problems, the newest ones. Four
    queries; sources, logs and reports but the newest are left where they are."""
    rows = device.evaluations.all()
    groups = list(rows.order_by().values_list("verdict", "problem__state").annotate(Count("pk")))
    verdicts = Counter[str]()
    for verdict, _state, count in groups:
        verdicts[verdict] += count
    recent = rows.select_related("problem").order_by("-id")
    recent = recent.defer("source", "report", "message", "problem__source", "problem__admission")
    environment, toolchain = rows.order_by("-id").values_list("report__environment", "toolchain").first() or (None, "")
    if not isinstance(environment, dict):
        environment = {"sandbox": device.facts.get("sandbox") or {}}
    return {
        "verdicts": sorted(verdicts.items(), key=lambda item: (-item[1], item[0])),
        "total": sum(verdicts.values()),
        "degenerate": sum(count for _verdict, state, count in groups if state == Problem.State.DEGENERATE),
        "recent": list(recent[:RECENT]),
        "layers": sandbox(environment),
        "toolchain": toolchain,
    }


def ordered(devices: Iterable[Device]) -> list[Device]:
    """Those that judge first, then those that only compile, then those that only own imported numbers."""
    return sorted(
        devices,
        key=lambda device: (device.imported, not device.judges, device.remote, device.name),
    )


CHANGES = {
    Device.State.ACTIVE: (_("Activate"), _("Searches can start again. Resume the paused ones manually.")),
    Device.State.DRAINING: (_("Drain"), _("No new searches start here; the running ones continue.")),
    Device.State.QUARANTINED: (_("Quarantine"), _("Its verdicts are not trusted. Its running searches are paused.")),
}


def changes(device: Device) -> list[tuple[str, StrOrPromise, StrOrPromise]]:
    """(state, label, what it means) of the states that the device may be put into."""
    return [(state.value, *texts) for state, texts in CHANGES.items() if state != device.state and device.judges]


READINGS_S = 4  # for so long a reading is shown again
SORTS = ("name", "queue", "heartbeat")


@dataclass(frozen=True)
class Job:
    """A candidate on the device now, `age_s` seconds after it was written."""

    run_id: int
    number: int
    title: str
    since: datetime
    age_s: float


@dataclass(frozen=True)
class FleetRow:
    """One device. `why_not` says why there is no reading of a GPU; `silent_s` is None while its worker beats."""

    device: Device
    tested: Tested | None  # None where no self-test can run
    verdicts: int
    passed: int  # of the verdicts
    last_at: datetime | None  # the newest verdict
    reading: GpuReading | None
    why_not: str
    jobs: tuple[Job, ...]
    waiting: int
    oldest: datetime | None
    oldest_s: float | None
    seen_s: float | None
    silent_s: float | None
    noise: DeviceCheck | None
    preflights: tuple[Preflight, ...]  # of problems, that run there now

    @property
    def changes(self) -> list[tuple[str, StrOrPromise, StrOrPromise]]:
        return changes(self.device)

    @property
    def dead(self) -> bool:
        """No worker serves it although one here should."""
        device = self.device
        return device.served and (self.seen_s is None or self.silent_s is not None)

    @property
    def cause(self) -> str:
        """Why it is dead, and what helps."""
        if self.device.is_gpu and self.why_not and not self.reading:
            text = gettext("%(why)s. Check the GPU with “nvidia-smi”, then restart with “make run”.")
            return text % {"why": self.why_not}
        return gettext(
            "No worker serves this device: it was stopped or never started. Start one for every device with “make run”."
        )


def fleet_rows(devices: Sequence[Device], *, now: datetime, sort: str = "name") -> list[FleetRow]:
    """In the order of `sort`, which is one of SORTS; a constant number of queries, and the driver is asked once."""
    jobs, waiting, noises = _jobs(now), _waiting(now), _noises(devices)
    _add_rechecks(jobs, waiting, now)
    preflights = _preflights(devices, waiting, now)
    passes = Count("pk", filter=Q(verdict=Verdict.PASS.value))
    verdicts = Evaluation.objects.filter(device__in=devices).order_by().values_list("device")
    counted = {pk: row for pk, *row in verdicts.annotate(total=Count("pk"), passed=passes, last=Max("created_at"))}
    tested = trusts([device for device in devices if device.judges], now=now)
    measures = any(device.measures for device in devices)
    readings: dict[str, GpuReading] = (measures and cache.get_or_set("gpu-readings", gpu_readings, READINGS_S)) or {}
    rows = []
    for device in devices:
        total, passed, last_at = counted.get(device.pk, (0, 0, None))
        reading = readings.get(device.facts.get("uuid", "")) if device.measures else None
        count, oldest = waiting.get(device.pk, (0, None))
        seen_s = max((now - device.seen_at).total_seconds(), 0.0) if device.seen_at else None
        rows.append(
            FleetRow(
                device=device,
                tested=tested.get(device.pk),
                verdicts=total,
                passed=passed,
                last_at=last_at,
                reading=reading,
                why_not=_why_not(device, reading, bool(readings)),
                jobs=tuple(jobs.get(device.pk, ())),
                waiting=count,
                oldest=oldest,
                oldest_s=max((now - oldest).total_seconds(), 0.0) if oldest else None,
                seen_s=seen_s,
                silent_s=seen_s if seen_s is not None and seen_s > SILENT_S else None,
                noise=noises.get(device.pk),
                preflights=tuple(preflights.get(device.pk, ())),
            )
        )
    if sort == "queue":
        return sorted(rows, key=lambda one: -one.waiting)
    if sort == "heartbeat":
        return sorted(rows, key=lambda one: one.seen_s if one.seen_s is not None else float("inf"), reverse=True)
    return rows


def _why_not(device: Device, reading: GpuReading | None, answered: bool) -> str:
    if reading is not None or not device.is_gpu:
        return ""
    if device.remote:
        return gettext("on another machine: jobs are exported as files")
    if answered:
        return gettext("the NVIDIA driver does not list this GPU")
    return gettext("no NVIDIA driver answers where the web server runs")


def _jobs(now: datetime) -> dict[int, list[Job]]:
    """Candidates whose lease a worker holds, by device."""
    nodes = Node.objects.filter(state=Node.State.JUDGING).on_workers(now).order_by("pk")
    columns = ("run__device", "run", "number", "run__title", "run__problem__title", "created_at")
    found: dict[int, list[Job]] = {}
    for device_id, run_id, number, title, problem, since in nodes.values_list(*columns):
        found.setdefault(device_id, []).append(
            Job(run_id, number, title or problem, since, max((now - since).total_seconds(), 0.0))
        )
    return found


def _waiting(now: datetime) -> dict[int, tuple[int, datetime]]:
    """By device the candidates that no worker has taken: how many, and since when the oldest."""
    judging = Node.objects.filter(state=Node.State.JUDGING)
    nodes = judging.exclude(pk__in=judging.on_workers(now))
    rows = nodes.order_by().values_list("run__device").annotate(Count("pk"), Min("created_at"))
    return {device_id: (count, oldest) for device_id, count, oldest in rows}


def _add_rechecks(jobs: dict[int, list[Job]], waiting: dict[int, tuple[int, datetime]], now: datetime) -> None:
    """Completed kernels that are judged once more take the same place on a device, and in its queue."""
    columns = ("node__run", "node__number", "node__run__title", "node__run__problem__title", "created_at")
    rows = Recheck.objects.filter(state__in=Recheck.OPEN).order_by("pk")
    for device_id, state, lease_until, *job in rows.values_list("before__device", "state", "lease_until", *columns):
        run_id, number, title, problem, since = job
        if state == Recheck.State.RUNNING and lease_until > now:
            age_s = max((now - since).total_seconds(), 0.0)
            jobs.setdefault(device_id, []).append(Job(run_id, number, title or problem, since, age_s))
        else:
            count, oldest = waiting.get(device_id, (0, since))
            waiting[device_id] = (count + 1, min(oldest, since))


def _preflights(
    devices: Sequence[Device], waiting: dict[int, tuple[int, datetime]], now: datetime
) -> dict[int, list[Preflight]]:
    """Preflights that run, by device. Those that wait are added to the queue."""
    running: dict[int, list[Preflight]] = {}
    for one in preflights_unfinished([device for device in devices if device.judges], now=now):
        if one.state == "running":
            running.setdefault(one.device.pk, []).append(one)
            continue
        since = now - timedelta(seconds=one.waited_s or 0.0)
        count, oldest = waiting.get(one.device.pk, (0, since))
        waiting[one.device.pk] = (count + 1, min(oldest, since))
    return running


def _noises(devices: Iterable[Device]) -> dict[int, DeviceCheck]:
    """The last calibration of each GPU that stands there now."""
    now = {device.pk: device.facts.get("uuid", "") for device in devices if device.measures}
    rows = DeviceCheck.objects.filter(device__in=now, noise_floor__isnull=False).order_by()
    last: dict[tuple[Any, ...], int] = {
        (device_id, identity): pk
        for device_id, identity, pk in rows.values_list("device", "identity").annotate(Max("pk"))
    }
    wanted = [pk for (device_id, identity), pk in last.items() if now[device_id] == identity]
    return {check.device_id: check for check in DeviceCheck.objects.filter(pk__in=wanted)}
