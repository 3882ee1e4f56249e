"""The benches of this process: one per device, started on first use, closed when the process ends."""

from __future__ import annotations

import atexit
import logging
import os

from django.conf import settings
from django.utils.module_loading import import_string

from judge.bench.runner import Bench
from judge.bench.sandboxing.minimum import required_layers
from judge.devices.models import Device
from judge.values import JudgeError

log = logging.getLogger(__name__)
_open: dict[tuple[int, str], Bench] = {}  # by process id: a forked worker must not use its parent's children


def bench_for(device: Device) -> Bench:
    """The bench of `device` in this process. Raises JudgeError when it cannot start, ValueError for external ones."""
    if device.kind == Device.Kind.EXTERNAL:
        raise ValueError(f"{device.name} only holds imported numbers; nothing can be judged on it")
    if device.remote:
        raise JudgeError(f"{device.name} belongs to another machine: export jobs for it with judge_export_jobs")
    key = (os.getpid(), device.name)
    if key not in _open:
        _open[key] = (import_string(settings.JUDGE_BENCH) if settings.JUDGE_BENCH else Bench)(
            device.name,
            target=device.arch or settings.JUDGE_TARGET,
            minimum_sandbox=required_layers(settings.JUDGE_MIN_SANDBOX),
            artefacts=settings.DATA_DIR / "artefacts",
            identity=str(device.facts.get("uuid", "")),
        )
    return _open[key]


def rest_idle(after_s: float) -> int:
    """Send home what waits on benches of this process that have judged nothing for `after_s` seconds: it holds memory,
    and a GPU's may be wanted by others. How many children there were.
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


atexit.register(close_benches)
