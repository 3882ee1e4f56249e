"""The step without a GPU: every point through the interpreter, launches of candidate and reference kept one by one."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.benchmarks.calibration.points import Point
from tests.benchmarks.calibration.records import Traffic, traffic_of

PROGRAMS = 96  # of each launch; smaller launches are counted whole
PROJECT = Path(__file__).parents[3]


class CounterEnded(ValueError):
    """The counting process died, on this point or before it; it counts nothing more."""

    def __init__(self) -> None:
        super().__init__("the counting process ended")


class Counter:
    """One process that interprets, and counts one point at a time."""

    def __init__(self, target: str, limit_s: int, programs: int = PROGRAMS) -> None:
        """`programs` of each launch are interpreted; a point is given up after `limit_s` seconds."""
        self.target, self.limit_s = target, limit_s
        kept = ("PATH", "HOME", "LANG", "TMPDIR", "CC")
        env = {name: os.environ[name] for name in kept if name in os.environ}
        env |= {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(PROJECT)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.calibration.counting_child", target, str(programs)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=env,
        )

    def count(self, point: Point) -> Traffic:
        """Raises ValueError that says why a point cannot be counted: CounterEnded when no other can be, either."""
        request = {
            "source": point.spec.source,
            "case": point.spec.case,
            "policy": point.spec.policy.to_json(),
            "candidate": point.source,
            "limit_s": self.limit_s,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise CounterEnded from error
        line = self._process.stdout.readline()
        if not line:
            raise CounterEnded
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ValueError(answer["error"])
        return traffic_of(point, self.target, answer)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def count_all(
    points: Iterable[Point],
    *,
    target: str,
    limit_s: int,
    workers: int,
    told: Callable[[Point, Traffic | str], None],
    end: float = float("inf"),
) -> None:
    """Count every point; `told` hears each, from one thread at a time, with its traffic or why there is none.

    None begins after `end`, by the monotonic clock. Raises ValueError for fewer than one worker.
    """
    if workers < 1:
        raise ValueError("workers count from 1")
    waiting: queue.SimpleQueue[Point] = queue.SimpleQueue()
    for point in points:
        waiting.put(point)
    lock = threading.Lock()

    def work() -> None:
        while time.monotonic() < end and not waiting.empty():
            with Counter(target, limit_s) as counter:
                count_with(counter)

    def count_with(counter: Counter) -> None:
        """Until nothing is left or it dies: the next point is another one's then."""
        ended = False
        while not ended and time.monotonic() < end:
            try:
                point = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                found: Traffic | str = counter.count(point)
            except ValueError as error:
                found, ended = str(error), isinstance(error, CounterEnded)
            with lock:
                told(point, found)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
