"""Published kernels at their published sizes: this judge cold, warm and with new bests, and a plain judge beside it."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, field
from itertools import cycle, islice
from statistics import median
from typing import Any, Protocol

from judge.values import Job, JudgeError, Limits, Outcome, Subject
from tests.benchmarks.comparison import corpus
from tests.benchmarks.comparison.figures import percentile
from tests.benchmarks.comparison.judges import Rival
from tests.benchmarks.recorded.entries import Entry

OURS, PLAIN = "judge", "plain"
COLD, WARM, LOSER, BEST, FIRST_BEST, ONCE = "cold", "warm", "loser", "best", "first-best", "once"
PHASES = (COLD, WARM, LOSER, BEST, FIRST_BEST, ONCE)
ASKED = {  # what the candidate has to beat
    COLD: math.inf,  # nobody asks who is the best
    WARM: math.inf,
    LOSER: 1000.0,
    BEST: 0.01,
    FIRST_BEST: 0.01,  # the same, and torch.compile and the other baselines of the problem have no times yet
}
LIMITS = Limits(wall_s=120, stage_s=60)


class BenchLike(Protocol):
    """What is asked of a bench; `alternatives`: whether a best is set beside other baselines than eager."""

    alternatives: bool

    def evaluate(self, job: Job) -> Outcome: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Trial:
    """One evaluation by one judge. Seconds; `began_s` from the start of the comparison."""

    judge: str
    kernel: str
    phase: str
    began_s: float
    wall_s: float
    verdict: str
    reason: str = ""
    at_once: int = 1  # streams of evaluations on this GPU
    speedup: float | None = None
    pairs: int | None = None
    stopped: str = ""  # why no more pairs were timed
    alone_s: float | None = None
    stages_ms: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """`losers`: evaluations of a kernel as a loser. `bests`, `plain`: how many kernels are judged as bests, and by the
    plain judge. After `budget_s` nothing begins; None: no end."""

    phases: frozenset[str] = frozenset(ASKED)
    losers: int = 2
    bests: int = 1 << 30
    plain: int = 1 << 30
    budget_s: float | None = None

    def __post_init__(self) -> None:
        if min(self.losers, self.bests, self.plain) < 0 or (self.budget_s is not None and self.budget_s <= 0):
            raise ValueError("evaluations and kernels count from 0, and a budget is positive")
        if not self.phases <= ASKED.keys():
            raise ValueError(f"phases are {', '.join(ASKED)}")

    def of(self, number: int, *, new_problem: bool) -> list[str]:
        """Phases of the kernel with that number, in order."""
        bests = [BEST, *([FIRST_BEST] if new_problem else [])] if number < self.bests else []
        return [phase for phase in (COLD, WARM, *[LOSER] * self.losers, *bests) if phase in self.phases]


def judged(bench: BenchLike, entry: Entry, phase: str, *, began_s: float, at_once: int = 1) -> Trial:
    """One evaluation by this judge."""
    bench.alternatives = phase == FIRST_BEST
    best = entry.candidate if phase == LOSER else None
    job = Job(entry.id, entry.spec, entry.candidate, limits=LIMITS, beat=ASKED[phase], incumbent=best)
    started = time.monotonic()
    try:
        outcome = bench.evaluate(job)
    except JudgeError as error:
        wall_s = time.monotonic() - started
        return Trial(OURS, entry.id, phase, began_s, wall_s, "lost", str(error)[:300], at_once)
    wall_s = time.monotonic() - started
    mine = next((timing for timing in outcome.timings if timing.subject is Subject.CANDIDATE), None)
    return Trial(
        OURS,
        entry.id,
        phase,
        began_s,
        wall_s,
        str(outcome.verdict),
        outcome.reason,
        at_once,
        speedup=outcome.speedup.value if outcome.speedup else None,
        pairs=mine.n if mine else None,
        stopped=str(mine.detail.get("stopped", "")) if mine else "",
        alone_s=outcome.environment.get("gpu_alone_s"),
        stages_ms={stage.name: round(stage.wall_ms, 1) for stage in outcome.stages},
    )


def compared(
    entries: Sequence[Entry],
    bench: BenchLike,
    plain: Rival,
    plan: Plan,
    *,
    told: Callable[[Trial], None] = lambda trial: None,
    clock: Callable[[], float] = time.monotonic,
) -> list[Trial]:
    """The trials, in order: a kernel is done with by both judges before the next one begins."""
    start = clock()
    end = math.inf if plan.budget_s is None else start + plan.budget_s
    found: list[Trial] = []
    problems: set[str] = set()

    def noted(trial: Trial) -> None:
        told(trial)
        found.append(trial)

    for number, entry in enumerate(entries):
        for phase in plan.of(number, new_problem=entry.problem not in problems):
            if clock() >= end:
                return found
            noted(judged(bench, entry, phase, began_s=clock() - start))
        problems.add(entry.problem)
        if number < plan.plain and clock() < end:
            began_s = clock() - start
            answer = plain.judge(corpus.Entry(entry.problem, entry.step, entry.spec.source, entry.candidate))
            given = {"reason": answer.note[:300], "speedup": answer.speedup, "pairs": answer.calls}
            noted(Trial(PLAIN, entry.id, ONCE, began_s, answer.wall_s, answer.verdict, alone_s=answer.alone_s, **given))
    return found


def at_once(
    entries: Sequence[Entry],
    open_bench: Callable[[], BenchLike],
    streams: int,
    seconds: float,
    *,
    told: Callable[[Trial], None] = lambda trial: None,
) -> list[Trial]:
    """Losers in so many streams on one GPU, each at one problem with a bench of its own, for so many seconds.

    Every stream evaluates its kernel once before the time begins. Raises what a stream raises.
    """
    found: list[Trial] = []
    ready = threading.Barrier(streams)

    def stream(entry: Entry) -> None:
        try:
            with closing(open_bench()) as bench:
                judged(bench, entry, COLD, began_s=0.0)
                ready.wait()
                start = time.monotonic()
                while (began_s := time.monotonic() - start) < seconds:
                    trial = judged(bench, entry, LOSER, began_s=began_s, at_once=streams)
                    told(trial)
                    found.append(trial)
        except BaseException:
            ready.abort()  # nobody waits for this one
            raise

    first = list({entry.problem: entry for entry in reversed(entries)}.values())
    with ThreadPoolExecutor(streams) as pool:
        running = [pool.submit(stream, entry) for entry in islice(cycle(first), streams)]
    faults = [fault for one in running if (fault := one.exception()) is not None]
    if faults:
        raise next((one for one in faults if not isinstance(one, threading.BrokenBarrierError)), faults[0])
    return found


@dataclass(frozen=True)
class Column:
    """One judge in one phase, of kernels that passed. Seconds, except for stages."""

    judge: str
    phase: str
    at_once: int
    n: int
    per_minute: float
    p50_s: float
    p95_s: float
    pairs: float | None
    stages_ms: dict[str, float]  # medians


def columns(trials: Iterable[Trial]) -> list[Column]:
    """By judge, phase and streams, in the order of PHASES."""
    groups: dict[tuple[str, str, int], list[Trial]] = {}
    for trial in trials:
        if trial.verdict == "pass":
            groups.setdefault((trial.judge, trial.phase, trial.at_once), []).append(trial)
    order = sorted(groups, key=lambda key: (key[2], PHASES.index(key[1])))
    return [_column(key, groups[key]) for key in order]


def _column(key: tuple[str, str, int], trials: list[Trial]) -> Column:
    walls = [trial.wall_s for trial in trials]
    names = dict.fromkeys(name for trial in trials for name in trial.stages_ms)
    stages = {name: median(one.stages_ms[name] for one in trials if name in one.stages_ms) for name in names}
    pairs = [trial.pairs for trial in trials if trial.pairs is not None]
    took_s = sum(walls) if key[2] == 1 else max(one.began_s + one.wall_s for one in trials)
    rate, middle = 60 * len(walls) / took_s, median(pairs) if pairs else None
    return Column(*key, len(walls), rate, median(walls), percentile(walls, 95), middle, stages)


def ratios(trials: Sequence[Trial]) -> dict[str, float]:
    """By phase, this judge's evaluations a minute over the plain judge's, on the kernels that passed both."""
    plain = {one.kernel: one.wall_s for one in trials if (one.judge, one.verdict) == (PLAIN, "pass")}
    found = {}
    for phase in PHASES:
        ours: dict[str, list[float]] = {}
        for one in trials:
            if (one.judge, one.phase, one.verdict, one.at_once) == (OURS, phase, "pass", 1) and one.kernel in plain:
                ours.setdefault(one.kernel, []).append(one.wall_s)
        if ours:
            mine_s = sum(sum(walls) / len(walls) for walls in ours.values())
            found[phase] = sum(plain[kernel] for kernel in ours) / mine_s
    return found


def differing(trials: Sequence[Trial]) -> list[str]:
    """Kernels of which the judges say different things: `kernel: ours / plain`."""
    said: dict[str, dict[str, str]] = {}
    for one in trials:
        said.setdefault(one.kernel, {}).setdefault(one.judge, f"{one.verdict} {one.reason}".strip()[:80])
    both = {kernel: words for kernel, words in said.items() if len(words) == 2}
    return [
        f"{kernel}: {words[OURS]} / {words[PLAIN]}"
        for kernel, words in both.items()
        if words[OURS].split()[0] != words[PLAIN].split()[0]
    ]


def table(rows: Sequence[Column], times: dict[str, float]) -> list[str]:
    """For a terminal."""
    lines = ["phase       judge  streams    n  per min   p50 s   p95 s  pairs  times plain"]
    for row in rows:
        pairs = "-" if row.pairs is None else f"{row.pairs:.0f}"
        ratio = f"{times[row.phase]:.1f}" if row.judge == OURS and row.at_once == 1 and row.phase in times else "-"
        lines.append(
            f"{row.phase:11} {row.judge:6} {row.at_once:7} {row.n:4} {row.per_minute:8.1f} {row.p50_s:7.2f} "
            f"{row.p95_s:7.2f} {pairs:>6} {ratio:>12}"
        )
    return lines


def to_json(trials: Sequence[Trial]) -> dict[str, Any]:
    """Everything, raw trials included."""
    return {
        "columns": [asdict(row) for row in columns(trials)],
        "times_plain": ratios(trials),
        "differing": differing(trials),
        "trials": [asdict(trial) for trial in trials],
    }
