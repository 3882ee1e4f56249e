"""Runs entries of the corpora on the benches of one device and says what became of each."""

from __future__ import annotations

import dataclasses
import queue
import signal
import statistics
import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from judge.bench.processes.stopping import LOOK_S, stoppable
from judge.bench.runner import Bench
from judge.selftest.entries import Corpus, Entry
from judge.selftest.results import EntryResult, Report, State
from judge.sources.checks import case_for, declared_cases
from judge.values import PROTOCOL, AdmissionReport, Audit, Job, JudgeError, Outcome, SpeedCall, Stopped

WORTH_A_BENCH = 12  # entries that wait for a kind of bench for each one that is open
ONCE = "faster in one pair of two"
MESSAGE_CHARS = 600
RETRIES = 2  # a fault of the judge is tried again before it counts
Progress = Callable[[EntryResult], None]


Open = Callable[[str], Bench]  # a bench by its device's name; each worker closes what it opened


def kinds_of(device: str) -> tuple[str, ...]:
    """Kinds of bench that speak for a device, the preferred first.

    Attacks on the clock need one: on a machine without a GPU they meet it on the CPU bench, which works like
    CUDA with the CPU's wall clock.
    """
    kind = device.partition(":")[0]
    return ("interpreter", "cpu") if kind == "interpreter" else (kind,)


def bench_kind(entry: Entry, device: str) -> str | None:
    """The kind of bench that judges `entry` for `device`; None where it cannot be judged."""
    return next((kind for kind in kinds_of(device) if kind in entry.benches), None)


def run_entries(
    found: Sequence[Entry],
    device: str,
    open_bench: Open,
    *,
    workers: int = 2,
    whole: bool = True,
    progress: Progress | None = None,
    budget_s: float | None = None,
    unwanted: Callable[[], bool] = lambda: False,
) -> Report:
    """Judge every entry that `device` can, `workers` at a time, each with benches of its own.

    `whole` says whether `found` is everything there is. A fault of the judge is retried, then stands as `lost` in the
    result. After `budget_s`, or Ctrl-C, no further entry begins; the report then says how many are left. As soon as it
    is `unwanted`, those under way end as well. Raises JudgeError when a bench cannot start.
    """
    started = time.time()
    groups: dict[str, list[Entry]] = defaultdict(list)
    skipped = []
    for entry in found:
        kind = bench_kind(entry, device)
        groups[kind].append(entry) if kind else skipped.append(entry.id)
    group = _ChildGroup(device, open_bench, progress, budget_s, unwanted)
    todo = [(kind, entry) for kind in sorted(groups) for entry in groups[kind]]
    group.work(todo, workers)
    left = len(todo) - len(group.rows)
    order = {entry.id: number for number, entry in enumerate(found)}
    rows = sorted(group.rows, key=lambda row: order[row.id])
    return Report(
        device=device,
        protocol=PROTOCOL,
        started=started,
        finished=time.time(),
        results=tuple(rows),
        environment=group.environment,
        whole=whole and not left,
        left=left,
        skipped=tuple(skipped),
    )


class _ChildGroup:
    """Threads that take entries off queues, one for each kind of bench. A bench belongs to one thread."""

    def __init__(
        self,
        device: str,
        open_bench: Open,
        progress: Progress | None,
        budget_s: float | None,
        unwanted: Callable[[], bool],
    ) -> None:
        self.device = device
        self.unwanted = unwanted
        self.given_up = False  # what is under way ends, too
        self.until = None if budget_s is None else time.monotonic() + budget_s
        self.stopped = False  # by the user or the budget, with entries left
        self.open_bench = open_bench
        self.progress = progress
        self.rows: list[EntryResult] = []
        self.environment: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._opened: Counter[str] = Counter()
        self._faults: list[BaseException] = []
        self._completed: queue.SimpleQueue[EntryResult | None] = queue.SimpleQueue()  # None: a thread has ended

    def work(self, todo: list[tuple[str, Entry]], workers: int) -> None:
        """Judge all of `todo`; progress is reported in the caller's thread. Raises what a thread raised."""
        queues: dict[str, queue.SimpleQueue[Entry]] = defaultdict(queue.SimpleQueue)
        for kind, entry in todo:
            queues[kind].put(entry)
        kinds = sorted(queues, key=lambda kind: -queues[kind].qsize())
        threads = [
            threading.Thread(target=self._serve, args=(_rotated(kinds, number), queues), daemon=True)
            for number in range(max(1, min(workers, len(todo))))
        ]
        with self._stopped_by_ctrl_c():
            for thread in threads:
                thread.start()
            left = len(threads)
            while left:
                if self.unwanted():
                    self.given_up = self.stopped = True
                try:
                    row = self._completed.get(timeout=LOOK_S)
                except queue.Empty:
                    continue
                if row is None:
                    left -= 1
                    continue
                self.rows.append(row)
                if self.progress is not None:
                    self.progress(row)
        if self._faults:
            raise self._faults[0]

    @contextmanager
    def _stopped_by_ctrl_c(self) -> Iterator[None]:
        """What is under way is finished and counts. Signals are for the main thread; elsewhere nothing changes."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def stop(*_: object) -> None:
            self.stopped = True

        before = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def _goes_on(self) -> bool:
        if self.until is not None and time.monotonic() > self.until:
            self.stopped = True
        return not self._faults and not self.stopped

    def _serve(self, kinds: list[str], queues: dict[str, queue.SimpleQueue[Entry]]) -> None:
        try:
            with stoppable(lambda: self.given_up):
                for kind in kinds:
                    if self._worth_a_bench(kind, queues[kind].qsize()):
                        self._empty(kind, queues[kind])
        except Stopped:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            self._faults.append(error)
        finally:
            self._completed.put(None)

    def _worth_a_bench(self, kind: str, waiting: int) -> bool:
        """A bench takes seconds to start: a further one of a kind only where much is left for it."""
        with self._lock:
            worth = waiting > WORTH_A_BENCH * self._opened[kind]
            self._opened[kind] += worth
            return worth

    def _empty(self, kind: str, waiting: queue.SimpleQueue[Entry]) -> None:
        own = self.device.partition(":")[0]
        bench = self.open_bench(self.device if own == kind else kind)
        try:
            while self._goes_on() and (entry := _next(waiting)) is not None:
                self._completed.put(judged(entry, kind, bench, self._goes_on))
            if kind == own or not self.environment:
                self.environment = dict(bench.facts())
        finally:
            bench.close()


def _rotated(kinds: list[str], by: int) -> list[str]:
    by %= max(1, len(kinds))
    return kinds[by:] + kinds[:by]


def _next(waiting: queue.SimpleQueue[Entry]) -> Entry | None:
    try:
        return waiting.get_nowait()
    except queue.Empty:
        return None


def judged(entry: Entry, kind: str, bench: Bench, goes_on: Callable[[], bool] = lambda: True) -> EntryResult:
    """One entry on one bench. Of an A/A entry no further comparison begins once it is not to go on."""
    started = time.monotonic()
    try:
        if entry.corpus is Corpus.AA:
            row = _against_itself(entry, kind, bench, goes_on)
        else:
            row = _seen(entry, kind, _patiently(lambda: _judge(entry, kind, bench)))
    except JudgeError as error:
        row = _row(entry, kind, State.LOST, "lost", "judge.failed", str(error))
    return dataclasses.replace(row, wall_ms=(time.monotonic() - started) * 1000)


def _against_itself(entry: Entry, kind: str, bench: Bench, goes_on: Callable[[], bool]) -> EntryResult:
    """Every comparison in fresh processes: what a process is lucky with belongs to the error rate.

    A win counts when it makes a best: found in every fresh pair, two of them or three, and audited for it.
    """
    calls: Counter[str] = Counter()
    ratios = []
    for number in range(entry.comparisons):
        if number and not goes_on():
            break
        ended = _patiently(lambda: _judge(entry, kind, bench))
        row = _seen(entry, kind, ended)
        if row.state is not State.RIGHT:
            return row
        rival = ended.versus_incumbent if isinstance(ended, Outcome) else None
        if not isinstance(ended, Outcome) or rival is None or rival.call is SpeedCall.NONE:
            raise JudgeError("the candidate was not compared with its twin")
        once = rival.call is SpeedCall.FASTER and ended.audit is Audit.NONE  # and not again in a fresh pair
        calls[ONCE if once else rival.call.value] += 1
        ratios.append(rival.value)
    text = ", ".join(f"{count} {call}" for call, count in sorted(calls.items()))
    text += f"; ratios {min(ratios):.3f} to {max(ratios):.3f}, {statistics.median(ratios):.3f} at the median"
    return dataclasses.replace(row, message=text, comparisons=len(ratios), faster=calls[SpeedCall.FASTER.value])


def _judge(entry: Entry, kind: str, bench: Bench) -> Outcome | AdmissionReport:
    problem = entry.problem
    if problem.case is None and kind != "cpu":  # there the problem's own sizes are right: large enough for a clock
        problem = dataclasses.replace(problem, case=case_for(kind, declared_cases(problem.source)))
    if entry.admits:
        return bench.admit(problem, limits=entry.limits)
    job = Job(
        id=uuid.uuid4().hex,
        problem=problem,
        candidate=entry.candidate,
        limits=entry.limits,
        timing=entry.timing,
        beat=0.0 if entry.corpus is Corpus.AA else None if entry.audit else float("inf"),
        incumbent=entry.incumbent,
    )
    for _ in range(entry.repeat - 1):
        bench.evaluate(job)
    return bench.evaluate(job)


def _patiently(attempt: Callable[[], Outcome | AdmissionReport]) -> Outcome | AdmissionReport:
    for _ in range(RETRIES):
        try:
            return attempt()
        except JudgeError:
            continue
    return attempt()


def _seen(entry: Entry, kind: str, ended: Outcome | AdmissionReport) -> EntryResult:
    verdict = ended.state if isinstance(ended, AdmissionReport) else str(ended.verdict)
    findings = () if isinstance(ended, AdmissionReport) else tuple(finding.code for finding in ended.findings)
    state = State.RIGHT if entry.fits(kind, ended) else _wrong(entry, verdict)
    row = _row(entry, kind, state, verdict, ended.reason, ended.message)
    return dataclasses.replace(row, findings=findings)


def _wrong(entry: Entry, verdict: str) -> State:
    """A cheat or a bug that got through, or an honest kernel that did not, is a miss; else only the reason is wrong."""
    passed = verdict in ("pass", "admitted")
    return State.MISSED if passed or entry.corpus in (Corpus.HONEST, Corpus.AA) else State.REASON


def _shortened(message: str) -> str:
    """Both ends: a traceback says at its end what happened."""
    return message if len(message) <= MESSAGE_CHARS else f"{message[:200]} … {message[203 - MESSAGE_CHARS :]}"


def _row(entry: Entry, kind: str, state: State, verdict: str, reason: str, message: str) -> EntryResult:
    return EntryResult(
        corpus=entry.corpus,
        id=entry.id,
        title=entry.title,
        bench=kind,
        state=state,
        verdict=verdict,
        reason=reason,
        message=_shortened(message),
        expected=" | ".join(str(one) for one in entry.endings(kind)),
        number=entry.number,
        size=entry.size,
    )
