"""Judges recorded kernels on the benches of one device, several at a time; each row is told as it comes."""

from __future__ import annotations

import queue
import signal
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from judge.values import Job, JudgeError, Limits, Outcome, Verdict
from tests.benchmarks.recorded.entries import Entry
from tests.benchmarks.recorded.rows import Key, Row, key_of, row_of

DEFAULT_LIMITS = Limits()
TRIES = 3  # a fault of the judge is no verdict on the kernel


class Judge(Protocol):
    """What is asked of a bench: `judge.bench.runner.Bench`, or a stand-in in tests."""

    def evaluate(self, job: Job) -> Outcome: ...

    def facts(self) -> dict[str, object]: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Plan:
    """How they are judged. `audit`: every pass is audited, as a would-be best is.

    After `budget_s` no further kernel begins.
    """

    device: str
    workers: int = 1
    budget_s: float | None = None
    audit: bool = False
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        if self.workers < 1 or (self.budget_s is not None and self.budget_s <= 0):
            raise ValueError("workers count from 1, and a budget is positive")


@dataclass(frozen=True)
class Tally:
    """`rows` in the order they came; how many were `known` before, and how many are `left` for another run."""

    rows: tuple[Row, ...]
    known: int
    left: int


def judge_all(
    entries: Sequence[Entry],
    open_bench: Callable[[], Judge],
    plan: Plan,
    *,
    known: Collection[Key] = frozenset(),
    told: Callable[[Row], None] = lambda row: None,
) -> Tally:
    """Judge every entry whose key is not `known`; `told` is called in the caller's thread.

    Ctrl-C lets what is under way finish, and begins nothing more; a second one interrupts. Raises JudgeError when a
    bench does not start, and whatever `told` raises.
    """
    run = _Run(entries, open_bench, plan, known)
    rows = []
    with run.stopped_by_ctrl_c():
        for row in run.rows():
            rows.append(row)
            told(row)
    return Tally(tuple(rows), run.known_before, len(entries) - len(rows) - run.known_before)


class _Run:
    """Threads that take entries off one queue, each with a bench of its own."""

    def __init__(
        self, entries: Sequence[Entry], open_bench: Callable[[], Judge], plan: Plan, known: Collection[Key]
    ) -> None:
        self.open_bench = open_bench
        self.plan = plan
        self.known = known
        self.known_before = 0
        self.stopped = False
        self.until = None if plan.budget_s is None else time.monotonic() + plan.budget_s
        self._todo: queue.SimpleQueue[Entry] = queue.SimpleQueue()
        for entry in entries:
            self._todo.put(entry)
        self._count = min(plan.workers, len(entries))
        self._told: queue.SimpleQueue[Row | BaseException | None] = queue.SimpleQueue()  # None: a thread has ended
        self._lock = threading.Lock()

    def rows(self) -> Iterator[Row]:
        """Rows as they come. Raises what a thread raised, once all have ended."""
        for _ in range(self._count):
            threading.Thread(target=self._serve, daemon=True).start()
        working, fault = self._count, None
        try:
            while working:
                told = self._told.get()
                if isinstance(told, Row):
                    yield told
                elif told is None:
                    working -= 1
                else:
                    fault, self.stopped = fault or told, True
        finally:
            self.stopped = True
        if fault is not None:
            raise fault

    @contextmanager
    def stopped_by_ctrl_c(self) -> Iterator[None]:
        """Signals are for the main thread; elsewhere nothing changes."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def stop(*_: object) -> None:
            self.stopped = True
            signal.signal(signal.SIGINT, before)

        signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _serve(self) -> None:
        try:
            bench = self.open_bench()
            try:
                toolchain = str(bench.facts()["toolchain"])
                while (entry := self._next(toolchain)) is not None:
                    self._told.put(judged(entry, bench, self.plan, toolchain))
            finally:
                bench.close()
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self._told.put(error)
        finally:
            self._told.put(None)

    def _next(self, toolchain: str) -> Entry | None:
        """The next entry that is not known, while there is time."""
        while not self.stopped and (self.until is None or time.monotonic() < self.until):
            try:
                entry = self._todo.get_nowait()
            except queue.Empty:
                return None
            if key_of(entry, self.plan.device, toolchain) not in self.known:
                return entry
            with self._lock:
                self.known_before += 1
        return None


def judged(entry: Entry, bench: Judge, plan: Plan, toolchain: str) -> Row:
    """One kernel; a fault of the judge is tried again before it stands as `lost`."""
    started = time.monotonic()
    job = Job(
        id=uuid.uuid4().hex,
        problem=entry.spec,
        candidate=entry.candidate,
        limits=plan.limits,
        beat=None if plan.audit else float("inf"),
    )
    outcome = _patiently(bench, job)
    return row_of(entry, outcome, device=plan.device, toolchain=toolchain, wall_s=time.monotonic() - started)


def _patiently(bench: Judge, job: Job) -> Outcome:
    for attempt in range(TRIES):
        try:
            return bench.evaluate(job)
        except JudgeError as error:
            if attempt == TRIES - 1:
                return Outcome(Verdict.LOST, stage="judge", reason="judge.failed", message=str(error))
    raise AssertionError("TRIES is positive")
