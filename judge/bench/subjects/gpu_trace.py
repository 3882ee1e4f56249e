"""Which kernels the GPU ran during a call and for how long, by the driver's own account (CUPTI through torch)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from judge.bench.exchange.claims import MOST_LAUNCHES
from judge.bench.exchange.fields import NAME
from judge.bench.exchange.wire import Message


class GpuTrace:
    """`rows` after a traced block: name, calls, us; `failure` says why there are none."""

    def __init__(self) -> None:
        self.rows: list[Message] = []
        self.failure = ""

    @contextmanager
    def tracing(self) -> Iterator[None]:
        """Trace the block. A profiler that does not start or stop is a note, not an error."""
        self.rows, self.failure = [], ""
        profiler = self._started()
        try:
            yield
        finally:
            if profiler is not None:
                self._stop(profiler)

    def _started(self) -> Any:
        try:
            profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
            profiler.start()
        except (RuntimeError, OSError, AssertionError, ImportError) as error:
            self.failure = f"the profiler did not start: {error}"[:300]
            return None
        return profiler

    def _stop(self, profiler: Any) -> None:
        try:
            torch.cuda.synchronize()
            profiler.stop()
            self.rows = _rows(profiler.events())
        except (RuntimeError, OSError, AssertionError) as error:
            self.failure = f"the profiler did not stop: {error}"[:300]
        if not self.rows and not self.failure:
            self.failure = "the profiler saw no kernel"


def _rows(events: Any) -> list[Message]:
    spent: dict[str, list[float]] = {}
    for event in events:
        if str(getattr(event, "device_type", "")).endswith("CUDA") and not getattr(event, "is_user_annotation", False):
            row = spent.setdefault(str(event.name)[:NAME], [0, 0.0])
            row[0] += 1
            row[1] += float(event.time_range.elapsed_us())
    rows = [{"name": name, "calls": int(calls), "us": us} for name, (calls, us) in spent.items()]
    return sorted(rows, key=lambda row: -float(str(row["us"])))[:MOST_LAUNCHES]
