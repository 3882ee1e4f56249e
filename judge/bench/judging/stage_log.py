"""Where an evaluation is and what it has done, told to the runner as it happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from typing import TypeVar

from judge.bench.exchange.contact import Deadline
from judge.bench.exchange.wire import Channel
from judge.values import StageRecord

Result = TypeVar("Result")


class StageLog:
    """Kept by the referee: if it hangs or dies, the runner knows whose code was running."""

    def __init__(self, boss: Channel, deadline: Deadline) -> None:
        self.boss = boss
        self.deadline = deadline
        self.own: Deadline | None = None  # of a stage that has a time limit of its own
        self.now = "start"
        self.stages: list[StageRecord] = []

    def doing(self, what: str) -> None:
        """A stage begins."""
        self.now = what
        self.boss.send({"doing": what})

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Others use the GPU: their time does not count here. The runner sees by itself who waits."""
        with self.deadline.paused(), nullcontext() if self.own is None else self.own.paused():
            yield

    def timed(self, name: str, step: Callable[[], Result]) -> Result:
        """Do a stage and record that it went well."""
        started = time.monotonic()
        result = step()
        self.record(name, "ok", (time.monotonic() - started) * 1000)
        return result

    def record(self, name: str, state: str, wall_ms: float, detail: str = "") -> None:
        record = StageRecord(name, state, wall_ms, detail)
        self.stages.append(record)
        self.boss.send({"stage": asdict(record)})
