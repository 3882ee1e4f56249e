"""How the judge does when many ask at once: `judge_crowd`. Every worker is a process with a bench, as in production."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import queue
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from threading import BrokenBarrierError
from typing import Any, Protocol

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from judge.bench.device.nvml import gpus_here
from judge.bench.runner import Bench
from judge.bench.sandboxing.minimum import required_layers
from judge.doctor.examine import device_names
from judge.selftest.entries import Corpus, entries
from judge.sources.checks import case_for, declared_cases
from judge.values import Job, JudgeError, Limits, Outcome, ProblemSpec
from tests.benchmarks.comparison.corpus import entries as losers
from tests.benchmarks.comparison.figures import percentile

OUT_OF_REACH = 1e6  # a speedup: whatever is judged against it has lost
WAITS = (
    "gpu_waited_shared_s", "gpu_waited_alone_s", "gpu_shared_s", "gpu_alone_s", "gpu_quiet_s",
    "gpu_waited_contexts_s", "children_waited_s", "ended_waited_s",
)  # fmt: skip
START_S, GRACE_S = 120.0, 5.0  # until every bench is there; for what was under way at the end


@dataclass(frozen=True)
class Row:
    """One evaluation: seconds in all, milliseconds by stage, seconds of every kind of waiting and holding."""

    id: str
    worker: int
    verdict: str
    reason: str
    wall_s: float
    stages_ms: dict[str, float] = field(default_factory=dict)
    waits_s: dict[str, float] = field(default_factory=dict)
    message: str = ""

    @classmethod
    def of(cls, job: Job, worker: int, wall_s: float, outcome: Outcome) -> Row:
        stages: dict[str, float] = {}
        for stage in outcome.stages:
            stages[stage.name] = round(stages.get(stage.name, 0.0) + stage.wall_ms, 1)
        waits = {name: float(outcome.environment[name]) for name in WAITS if name in outcome.environment}
        head = job.id, worker, str(outcome.verdict), outcome.reason, round(wall_s, 3)
        return cls(*head, stages, waits, outcome.message[:200])


class Judges(Protocol):
    """What a worker asks of a bench."""

    def evaluate(self, job: Job) -> Outcome: ...


def honest_jobs(count: int, kind: str) -> list[Job]:
    """Small honest kernels, each with a problem of its own, every pass of which is audited."""
    found: list[Job] = []
    for entry in entries():
        usual = entry.timing and entry.audit and entry.limits.wall_s == Limits().wall_s  # spares are of one kind
        if entry.corpus is Corpus.HONEST and kind in entry.benches and usual:
            case = entry.problem.case or case_for(kind, declared_cases(entry.problem.source))
            source = f"{entry.problem.source}\n# {len(found)}\n"
            problem = dataclasses.replace(entry.problem, case=case, source=source)
            found.append(Job(entry.id, problem, entry.candidate, limits=entry.limits))
        if len(found) == count:
            break
    return found


def losing_jobs(number: int, kind: str) -> Iterable[Job]:
    """Endless candidates of one search's problem that are slower than its best."""
    entry = losers()[number]
    problem = ProblemSpec(entry.source, case_for(kind, declared_cases(entry.source)))
    turn = 0
    while True:
        turn += 1
        candidate = f"{entry.candidate}\nTURN = {turn}\n"
        yield Job(f"{entry.id}#{turn}", problem, candidate, beat=OUT_OF_REACH, incumbent=entry.candidate)


def judged(
    jobs: Iterable[Job],
    bench: Judges,
    worker: int,
    tell: Callable[[Row], None],
    until: float,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Judge until there is none left or `until`; each is told."""
    for job in jobs:
        if clock() >= until:
            return
        started = clock()
        try:
            outcome = bench.evaluate(job)
        except JudgeError as error:
            tell(Row(job.id, worker, "lost", "judge.failed", round(clock() - started, 3), message=str(error)[:200]))
        else:
            tell(Row.of(job, worker, clock() - started, outcome))


@dataclass(frozen=True)
class Order:
    """What one worker process does, and for how long. `stream`: the search that it stands for; None: take jobs."""

    device: str
    target: str
    layers: frozenset[str]
    worker: int
    seconds: float
    stream: int | None = None


def _work(order: Order, todo: Any, rows: Any, ready: Any) -> None:
    """Life of a worker's process."""
    kind = order.device.partition(":")[0]
    bench = Bench(order.device, target=order.target, minimum_sandbox=order.layers, alternatives=False)
    with bench:
        bench.facts()
        bench.stock(Limits())
        time.sleep(1.0 if kind == "cuda" else 0.0)  # contexts are made ahead
        ready.wait(START_S)
        jobs = _taken(todo) if order.stream is None else losing_jobs(order.stream, kind)
        judged(jobs, bench, order.worker, rows.put, time.monotonic() + order.seconds)
    rows.put(None)


def _taken(todo: Any) -> Iterable[Job]:
    while True:
        try:
            yield todo.get(timeout=0.2)
        except queue.Empty:
            return


def crowd(orders: Sequence[Order], jobs: Sequence[Job], tell: Callable[[Row], None]) -> list[Row]:
    """Run every order in a process of its own, all at once. What is under way GRACE_S after its time is ended.

    Raises JudgeError where a worker ended badly.
    """
    context = multiprocessing.get_context("spawn")
    todo, rows = context.Queue(), context.Queue()
    ready = context.Barrier(len(orders) + 1)
    for job in jobs:
        todo.put(job)
    workers = [context.Process(target=_work, args=(order, todo, rows, ready)) for order in orders]
    for worker in workers:
        worker.start()
    found: list[Row] = []
    left = len(workers)
    try:
        ready.wait(START_S)
        until = time.monotonic() + max(order.seconds for order in orders) + GRACE_S
        while left and time.monotonic() < until:
            try:
                row = rows.get(timeout=1.0)
            except queue.Empty:
                if any(worker.exitcode for worker in workers):
                    raise JudgeError("a worker of the crowd ended") from None
                continue
            if row is None:
                left -= 1
                continue
            found.append(row)
            tell(row)
    except BrokenBarrierError as error:
        raise JudgeError(f"not every worker was ready within {START_S:.0f} s") from error
    finally:
        todo.cancel_join_thread()
        for worker in workers:
            if left:
                worker.terminate()
            worker.join()
    return found


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Median and 95th percentile of the seconds, what was not passed, medians of every stage and wait."""
    walls = [row.wall_s for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row.stages_ms))
    waits = list(dict.fromkeys(name for row in rows for name in row.waits_s))
    return {
        "n": len(rows),
        "p50_s": round(median(walls), 3),
        "p95_s": round(percentile(walls, 95), 3),
        "not_passed": [f"{row.id}: {row.verdict} {row.reason}" for row in rows if row.verdict != "pass"],
        "stages_ms": {name: round(median(r.stages_ms[name] for r in rows if name in r.stages_ms), 1) for name in names},
        "waits_s": {name: round(median(r.waits_s[name] for r in rows if name in r.waits_s), 3) for name in waits},
    }


def loss(alone: Sequence[Row], beside: Sequence[Row]) -> float:
    """The share of its evaluations that a search loses to others, where it ran as long alone and beside them."""
    return 1.0 - len(beside) / len(alone)


class Command(BaseCommand):
    help = (
        "Judge honest small kernels with several workers at once, each a problem of its own, every pass audited; and "
        "let several searches judge losers at once, beside one alone. Reports medians, 95th percentiles, stages, what "
        "was waited for, how much a search loses to the others."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--device", default="interpreter", help="interpreter (default) or cuda:N")
        parser.add_argument("--workers", type=int, default=5, help="at once (5)")
        parser.add_argument("--kernels", type=int, default=30, help="honest kernels in all; 0: none (30)")
        parser.add_argument("--searches", type=int, default=4, help="streams of losers at once; 0: none (4)")
        parser.add_argument("--seconds", type=float, default=10.0, help="that each stream is watched for (10)")
        parser.add_argument("--budget", type=float, default=600.0, help="seconds after which it ends (600)")
        parser.add_argument("--json", action="store_true", help="print everything as JSON; progress goes to stderr")

    def handle(self, *args: Any, **options: Any) -> None:
        device = options["device"]
        if device not in device_names():
            raise CommandError(f"There is no device {device!r} here. Known: {', '.join(device_names())}.")
        targets = {f"cuda:{gpu.ordinal}": gpu.arch for gpu in gpus_here()}
        layers = required_layers(settings.JUDGE_MIN_SANDBOX)

        def order(worker: int, seconds: float, stream: int | None = None) -> Order:
            return Order(device, targets.get(device) or str(settings.JUDGE_TARGET), layers, worker, seconds, stream)

        found: dict[str, Any] = {"device": device}
        try:
            if options["kernels"]:
                jobs = honest_jobs(options["kernels"], device.partition(":")[0])
                orders = [order(number, options["budget"]) for number in range(options["workers"])]
                rows = crowd(orders, jobs, self._tell)
                found["honest"] = {"workers": options["workers"], "left": len(jobs) - len(rows), **figures(rows)}
                found["rows"] = [asdict(row) for row in rows]
            if options["searches"]:
                alone = crowd([order(0, options["seconds"], 0)], [], self._tell)
                streams = [order(number, options["seconds"], number) for number in range(options["searches"])]
                beside = crowd(streams, [], self._tell)
                first = [row for row in beside if row.worker == 0]
                found["searches"] = {
                    "alone": figures(alone),
                    "beside": figures(beside),
                    "loss": round(loss(alone, first), 3),
                }
        except (ValueError, JudgeError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(json.dumps(found, indent=1) if options["json"] else "\n".join(_table(found)))

    def _tell(self, row: Row) -> None:
        waits = " ".join(f"{name.removesuffix('_s')} {seconds:.1f}" for name, seconds in row.waits_s.items())
        self.stderr.write(f"{row.worker} {row.id:30} {row.wall_s:6.2f} s {row.verdict} {row.reason} {waits}")


def _table(found: dict[str, Any]) -> Iterable[str]:
    parts = {"honest": found.get("honest"), **{k: found.get("searches", {}).get(k) for k in ("alone", "beside")}}
    for name, part in parts.items():
        if part is None:
            continue
        yield f"{name}: n {part['n']}, median {part['p50_s']:.2f} s, 95th percentile {part['p95_s']:.2f} s"
        yield "  stages (ms): " + ", ".join(f"{stage} {ms:.0f}" for stage, ms in part["stages_ms"].items())
        yield "  waits (s): " + ", ".join(f"{wait} {seconds:.2f}" for wait, seconds in part["waits_s"].items())
        yield from (f"  not passed: {line}" for line in part["not_passed"])
    if "searches" in found:
        yield f"the first search loses {found['searches']['loss']:.0%} of its evaluations to the others"
