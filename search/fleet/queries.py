"""The fleet as it is now: what each device works on, what waits for it, whether anybody serves it, its GPU's state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.core.cache import cache
from django.db.models import Count, Max, Min, Q

from judge.bench.device.nvml import GpuReading, gpu_readings
from judge.devices.models import Device, DeviceCheck
from judge.problems.preflight import Preflight, preflights_unfinished
from search.engine.heartbeats import SILENT_S
from search.engine.leases import QUEUED, RETRY
from search.fleet.device_facts import DeviceRow, device_rows
from search.rechecks.models import Recheck
from search.records.models import Node

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
    """One device. `why_not` says why there is no reading; `silent_s` is None while its worker beats."""

    row: DeviceRow
    reading: GpuReading | None
    why_not: str
    jobs: tuple[Job, ...]
    waiting: int
    oldest: datetime | None
    oldest_s: float | None
    seen_s: float | None
    silent_s: float | None
    noise: DeviceCheck | None
    preflights: tuple[Preflight, ...] = ()  # of problems, that run there now

    @property
    def device(self) -> Device:
        return self.row.device

    @property
    def dead(self) -> bool:
        """Nobody serves it although a worker here should."""
        device = self.device
        return device.judges and not device.remote and (self.seen_s is None or self.silent_s is not None)

    @property
    def cause(self) -> str:
        """Why it is dead, and what helps."""
        if self.device.kind == Device.Kind.CUDA and self.why_not and not self.reading:
            return f"{self.why_not}. Check the GPU with “nvidia-smi”, then start again with “make run”."
        return (
            "No worker serves it: it was stopped or killed, or never started. “make run” starts one for every device."
        )


def fleet_rows(devices: Sequence[Device], *, now: datetime, sort: str = "name") -> list[FleetRow]:
    """In the order of `sort`, which is one of SORTS; a constant number of queries, and the driver is asked once."""
    jobs, waiting, noises = _jobs(now), _waiting(now), _noises(devices)
    _add_rechecks(jobs, waiting, now)
    preflights = _preflights(devices, waiting, now)
    readings = _readings() if any(device.measures for device in devices) else {}
    rows = []
    for row in device_rows(devices, now=now):
        device = row.device
        reading = readings.get(device.facts.get("uuid", "")) if device.measures else None
        count, oldest = waiting.get(device.pk, (0, None))
        seen_s = max((now - device.seen_at).total_seconds(), 0.0) if device.seen_at else None
        rows.append(
            FleetRow(
                row=row,
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
    return _sorted(rows, sort)


def _sorted(rows: list[FleetRow], sort: str) -> list[FleetRow]:
    if sort == "queue":
        return sorted(rows, key=lambda one: -one.waiting)
    if sort == "heartbeat":
        return sorted(rows, key=lambda one: one.seen_s if one.seen_s is not None else float("inf"), reverse=True)
    return rows


def _readings() -> dict[str, GpuReading]:
    found: dict[str, GpuReading] = cache.get_or_set("gpu-readings", gpu_readings, READINGS_S) or {}
    return found


def _why_not(device: Device, reading: GpuReading | None, answered: bool) -> str:
    if reading is not None:
        return ""
    if device.kind == Device.Kind.INTERPRETER:
        return "it has no GPU"
    if device.remote:
        return "it is another machine's: jobs leave as files"
    if not device.measures:
        return "nothing runs there"
    if answered:
        return "the NVIDIA driver does not list this GPU"
    return "no NVIDIA driver answers where the web server runs"


_CLAIMED = ~Q(lease_owner__in=("", QUEUED, RETRY, Node.PERSON))


def _jobs(now: datetime) -> dict[int, list[Job]]:
    """Candidates whose lease a worker holds, by device."""
    nodes = Node.objects.filter(_CLAIMED, state=Node.State.JUDGING, lease_until__gte=now).order_by("pk")
    columns = ("run__device", "run", "number", "run__title", "run__problem__title", "created_at")
    found: dict[int, list[Job]] = {}
    for device_id, run_id, number, title, problem, since in nodes.values_list(*columns):
        found.setdefault(device_id, []).append(
            Job(run_id, number, title or problem, since, max((now - since).total_seconds(), 0.0))
        )
    return found


def _waiting(now: datetime) -> dict[int, tuple[int, datetime]]:
    """By device the candidates that no worker has taken: how many, and since when the oldest."""
    held = Q(lease_until__gte=now) & _CLAIMED
    nodes = Node.objects.filter(state=Node.State.JUDGING).exclude(held)
    rows = nodes.order_by().values_list("run__device").annotate(Count("pk"), Min("created_at"))
    return {device_id: (count, oldest) for device_id, count, oldest in rows}


def _add_rechecks(jobs: dict[int, list[Job]], waiting: dict[int, tuple[int, datetime]], now: datetime) -> None:
    """Told kernels that are judged once more take the same place on a device, and in its queue."""
    columns = ("node__run", "node__number", "node__run__title", "node__run__problem__title", "created_at")
    rows = Recheck.objects.filter(state__in=Recheck.OPEN).order_by("pk")
    for device_id, state, due_at, *job in rows.values_list("before__device", "state", "due_at", *columns):
        run_id, number, title, problem, since = job
        if state == Recheck.State.RUNNING and due_at >= now:
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
