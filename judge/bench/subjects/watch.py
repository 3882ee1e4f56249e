"""What is observed while a candidate's forward runs: counted traffic, recorded compilations, or nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from judge.bench.exchange.claims import MOST_GROUPS, MOST_KERNELS, MOST_NOTES, MOST_ROWS, MOST_UNSEEN
from judge.bench.exchange.fields import NAME
from judge.bench.exchange.rows import CountedRow, KernelRow, LauncherRow, TunedRow, sendable
from judge.bench.exchange.wire import Message
from judge.bench.interpreting import cuda_stand_in, op_witness
from judge.bench.interpreting.kernel_code import Codes
from judge.bench.interpreting.op_witness import OpWitness
from judge.bench.interpreting.traffic import LaunchTraffic, TrafficReport
from judge.bench.processes.child import Assignment
from judge.bench.processes.inspection import threads_in
from judge.bench.subjects.gpu_trace import GpuTrace
from judge.bench.subjects.launches import MODES, Launches, compiled_graphs, install
from judge.values import JudgeError

GOES_ON_S, LOOK_S = 1.0, 0.01  # how long a thread may go on after forward while operators are counted
GOES_ON = "a thread that went on after forward"


class Watch:
    """Wraps each forward; afterwards tells what it saw. On a real device there is nothing to observe."""

    def during(self, *, count: bool) -> AbstractContextManager[Any]:
        return nullcontext()

    def returned(self, out: Any) -> None:
        """Told what forward returned, within `during`."""

    def report(self, *, count: bool) -> Message:
        return {}

    def fail_launches(self) -> Message:
        """From now on every launch of the candidate's own kernels fails."""
        raise JudgeError("this child's launches are its own")


class Counted(Watch):
    """Interpreted kernels: bounds are always checked, traffic is counted when asked for.

    Each launch is sent to the referee as soon as it is counted: what has been sent cannot be taken back.
    """

    def __init__(self, adapter: Any, send: Callable[[Message], None]) -> None:
        self.adapter = adapter
        self._send = send
        self._witness = OpWitness()
        self._before: set[int] | None = None  # threads, while a call is counted
        self._go_on = False  # whether the last counted call left some, which might work when nobody counts any more

    @contextmanager
    def during(self, *, count: bool) -> Iterator[None]:
        self.adapter.counts = count
        self.adapter.reset()
        ledger = self.adapter.ledger
        before, ledger.tell = ledger.tell, self._tell if count else ledger.tell
        try:
            with cuda_stand_in.computing(), self._counting() if count else nullcontext():
                yield
        finally:
            ledger.tell = before

    @contextmanager
    def _counting(self) -> Iterator[None]:
        self._before, self._go_on = _threads(), False
        with self.adapter.counting() as ledger, self._witness.watching(ledger):
            yield
        self._before = None

    def returned(self, out: Any) -> None:
        """Wait for threads that go on, while they are watched. One that does not end is told."""
        until = time.monotonic() + GOES_ON_S
        while self._before is not None and _threads() - self._before and not self._go_on:
            time.sleep(LOOK_S)
            self._go_on = time.monotonic() > until

    def _tell(self, row: LaunchTraffic) -> None:
        if len(self.adapter.ledger.kernels) <= MOST_ROWS:
            self._send({"counted": traffic_row(row)})

    def report(self, *, count: bool) -> Message:
        unseen = {"unseen": [*[GOES_ON] * self._go_on, *self._witness.unseen][:MOST_UNSEEN]} if count else {}
        return {"codes": code_rows(self.adapter.take_codes()), **unseen}


class Recorded(Watch):
    """Nothing runs: every launch is compiled for the target and written down."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        recorder.begin()

    def during(self, *, count: bool) -> AbstractContextManager[Any]:
        return self.recorder.recording()  # type: ignore[no-any-return]

    def report(self, *, count: bool) -> Message:
        kernels = ({**row, "name": str(row["name"])[:NAME]} for row in self.recorder.kernels)
        return {
            "kernels": sendable(kernels, KernelRow.read, MOST_KERNELS),
            "tuned": sendable(self.recorder.tuning_groups(), TunedRow.read, MOST_GROUPS),
            "launchers": sendable(self.recorder.launchers, LauncherRow.read, MOST_KERNELS),
            "notes": self.recorder.notes[:MOST_NOTES],
            "codes": code_rows(self.recorder.codes),
        }


class Audited(Watch):
    """Launches go through `launches`; on a GPU a counted call is traced."""

    def __init__(self, inner: Watch, launches: Launches, trace: GpuTrace | None) -> None:
        self.inner = inner
        self.launches = launches
        self.trace = trace

    @contextmanager
    def during(self, *, count: bool) -> Iterator[None]:
        with ExitStack() as stack:
            if self.trace is not None and count:
                stack.enter_context(self.trace.tracing())
            stack.enter_context(self.inner.during(count=count))
            stack.enter_context(self.launches.watching())
            yield

    def returned(self, out: Any) -> None:
        self.inner.returned(out)
        if self.launches.origins is not None:
            self.launches.origins.returned(out)

    def fail_launches(self) -> Message:
        self.launches.mode = "raise"
        return {"failing": True}

    def report(self, *, count: bool) -> Message:
        found = {**self.inner.report(count=count), "launches": self.launches.report()}
        found["compiled_graphs"] = compiled_graphs()
        if self.launches.origins is not None:
            beside = [f"{name} ran during a launch, beside its kernel" for name in self.launches.beside]
            found["uncounted"] = [*beside, *self.launches.origins.found][:MOST_UNSEEN]
        if self.trace is not None and count:
            found |= {"gpu": self.trace.rows, "gpu_failure": self.trace.failure}
        return found


def _threads() -> set[int]:
    return {number for number, _, _ in threads_in()}


def code_rows(codes: Codes) -> list[list[str]]:
    return [[code, name[:NAME]] for code, name in codes.items()]


def traffic_row(row: LaunchTraffic) -> Message:
    return {
        "name": row.name[:NAME],
        "origin": row.origin,
        "programs": row.programs,
        "logical_bytes": int(row.logical_bytes),
        "sector_bytes": int(row.sector_bytes),
        "unique_bytes": int(row.unique_bytes),
        "elementwise_flops": int(row.elementwise_flops),
        "dot_flops": {kind: int(flops) for kind, flops in row.dot_flops.items()},
        "accesses": int(row.accesses),
    }


def traffic_report(rows: Iterable[CountedRow]) -> TrafficReport:
    """What the referee makes of such rows."""
    return TrafficReport(tuple(LaunchTraffic(**vars(row)) for row in rows))


def warm_up(assignment: Assignment) -> None:
    """What has to be there before the candidate is: the thread of the profiler where operators are counted."""
    if assignment.adapter is not None and assignment.payload["mode"] != "record":
        op_witness.warm_up()


def watch_for(mode: str, assignment: Assignment, send: Callable[[Message], None]) -> Watch:
    """The watch of a subject. What it needs was installed in the zygote it was forked from."""
    if mode == "record":
        return Recorded(assignment.adapter)
    plain = Watch() if assignment.adapter is None else Counted(assignment.adapter, send)
    if mode in MODES:
        launches = Launches(mode, assignment.folder)
        install(launches)
        trace = GpuTrace() if mode == "census" and assignment.device != "cpu" else None
        return Audited(plain, launches, trace)
    return plain if mode == "run" else Watch()
