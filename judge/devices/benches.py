"""The benches of this process: one per device, started on first use, closed when the process ends; and the sign of life
of the worker that serves them."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime
from typing import TypeVar

from django.conf import settings
from django.utils import timezone
from django.utils.module_loading import import_string

from adaexplore_site.core.leases import beat
from judge.bench.probing.known_kernel import RECORD, prove
from judge.bench.runner import Bench
from judge.bench.sandboxing.minimum import required_layers
from judge.devices.models import Device
from judge.values import JudgeError, UnclearFault

log = logging.getLogger(__name__)

BEAT_S = 15.0
SILENT_S = 60.0  # later than that no worker is taken to serve a device

_open: dict[tuple[int, str], Bench] = {}  # by process id: a forked worker must not use its parent's children


def bench_for(device: Device) -> Bench:
    """The bench of `device` in this process. Raises JudgeError when it cannot start, or cannot judge a known kernel as
    its first; ValueError for external ones."""
    if device.imported:
        raise ValueError(f"{device.name} only holds imported numbers; nothing can be judged on it")
    if device.remote:
        raise JudgeError(f"{device.name} belongs to another machine: export jobs for it with judge_export_jobs")
    key = (os.getpid(), device.name)
    if key not in _open:
        bench = (import_string(settings.JUDGE_BENCH) if settings.JUDGE_BENCH else Bench)(
            device.name,
            target=device.arch or settings.JUDGE_TARGET,
            minimum_sandbox=required_layers(settings.JUDGE_MIN_SANDBOX),
            artefacts=settings.DATA_DIR / "artefacts",
            identity=str(device.facts.get("uuid", "")),
        )
        with ExitStack() as unproven:
            unproven.callback(bench.close)
            if not settings.JUDGE_BENCH:
                prove(bench, settings.DATA_DIR / "artefacts" / RECORD)
            unproven.pop_all()
        _open[key] = bench
    return _open[key]


def rest_idle(after_s: float) -> int:
    """End the waiting child processes of benches that have judged nothing for `after_s` seconds: they hold memory, also
    that of a GPU. Returns how many there were.
    """
    gone = 0
    for (pid, name), bench in _open.items():
        if pid == os.getpid() and bench.idle_s > after_s:
            gone += len(bench.waiting())
            try:
                bench.rest()
            except JudgeError as error:
                log.warning("the bench of %s does not come to rest: %s", name, error)
    return gone


def close_benches() -> None:
    """Close every bench that this process opened. Idempotent."""
    for key in [key for key in _open if key[0] == os.getpid()]:
        _open.pop(key).close()


def device_beat(*, device_ids: Sequence[int], now: datetime) -> None:
    """Mark these devices as seen."""
    Device.objects.filter(pk__in=device_ids).update(seen_at=now)


def heartbeat_start(device_ids: Sequence[int], *, every_s: float = BEAT_S) -> threading.Event | None:
    """Mark the devices as seen until the process ends or the event is set: a worker that judges for minutes goes on
    beating, a killed one stops by itself. None without devices."""
    if not device_ids:
        return None

    def seen() -> bool:
        device_beat(device_ids=device_ids, now=timezone.now())
        return True

    return beat(seen, every_s=every_s, name="device-heartbeat")[0]


atexit.register(close_benches)


Result = TypeVar("Result")


RETRIES = 2


def with_retries(attempt: Callable[[], Result]) -> Result:
    """Call `attempt`, again after each of the first two JudgeErrors; the third is raised, and so is an UnclearFault,
    which the bench has looked into."""
    for _ in range(RETRIES):
        try:
            return attempt()
        except UnclearFault:
            raise
        except JudgeError:
            continue
    return attempt()


def toolchain_of(bench: Bench) -> str:
    """Versions that decide what a verdict means, e.g. "torch 2.13.0 triton 3.7.1 sm_90"."""
    return str(bench.facts()["toolchain"])[:120]
