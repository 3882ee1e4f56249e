"""What the samples say: rates, percentiles, overhead, the share of time a GPU is kept from others, agreement."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from tests.benchmarks.comparison.contest import PHASES, Sample


@dataclass(frozen=True)
class Column:
    """One judge in one phase. Seconds; None where nothing measured it."""

    judge: str
    phase: str
    n: int
    per_minute: float
    p50_s: float
    p95_s: float
    overhead_p50_s: float | None  # wall time less the device's own time for the calls
    beside_p50_s: float | None  # wall time less the time in which the GPU worked for this evaluation alone
    alone_share: float | None  # of the wall time, nobody else could use the GPU
    timed_calls: float | None  # median


@dataclass(frozen=True)
class Agreement:
    """How the judges' answers fit each other, per kernel, by medians over its evaluations."""

    kernels: int
    same_verdict: int
    differing: tuple[str, ...]  # "kernel: ours / plain"
    speedups: int  # kernels that both measured
    median_difference: float | None  # of the speedups, as a fraction
    largest_difference: float | None


def columns(samples: Sequence[Sample]) -> list[Column]:
    """By phase, then by judge in order of appearance."""
    judges = list(dict.fromkeys(sample.judge for sample in samples))
    rows = []
    for phase in PHASES:
        for judge in judges:
            chosen = [sample for sample in samples if (sample.judge, sample.phase) == (judge, phase)]
            if chosen:
                rows.append(_column(judge, phase, chosen))
    return rows


def _column(judge: str, phase: str, samples: list[Sample]) -> Column:
    walls = [sample.answer.wall_s for sample in samples]
    over = [s.answer.wall_s - s.answer.busy_s for s in samples if s.answer.busy_s is not None]
    beside = [s.answer.wall_s - s.answer.alone_s for s in samples if s.answer.alone_s is not None]
    kept = [(s.answer.alone_s, s.answer.wall_s) for s in samples if s.answer.alone_s is not None]
    calls = [s.answer.calls for s in samples if s.answer.calls is not None]
    return Column(
        judge=judge,
        phase=phase,
        n=len(samples),
        per_minute=60 * len(walls) / sum(walls),
        p50_s=median(walls),
        p95_s=percentile(walls, 95),
        overhead_p50_s=median(over) if over else None,
        beside_p50_s=median(beside) if beside else None,
        alone_share=sum(a for a, _ in kept) / sum(w for _, w in kept) if kept else None,
        timed_calls=median(calls) if calls else None,
    )


def percentile(values: Iterable[float], percent: float) -> float:
    """The smallest value that at least `percent` of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def agreement(samples: Sequence[Sample], ours: str, other: str) -> Agreement:
    """Compare two judges on the kernels that both have judged."""
    found = {name: _answers(samples, name) for name in (ours, other)}
    both = [entry for entry in found[ours] if entry in found[other]]
    differing = [
        f"{entry}: {found[ours][entry][0]} / {found[other][entry][0]}"
        for entry in both
        if found[ours][entry][0] != found[other][entry][0]
    ]
    ratios = [
        abs(math.log(mine / theirs))
        for entry in both
        if (mine := found[ours][entry][1]) is not None and (theirs := found[other][entry][1]) is not None
    ]
    return Agreement(
        kernels=len(both),
        same_verdict=len(both) - len(differing),
        differing=tuple(differing),
        speedups=len(ratios),
        median_difference=math.expm1(median(ratios)) if ratios else None,
        largest_difference=math.expm1(max(ratios)) if ratios else None,
    )


def _answers(samples: Sequence[Sample], judge: str) -> dict[str, tuple[str, float | None]]:
    """kernel -> (last verdict, median speedup)"""
    answers: dict[str, tuple[str, float | None]] = {}
    for entry in dict.fromkeys(sample.entry for sample in samples if sample.judge == judge):
        own = [sample.answer for sample in samples if (sample.judge, sample.entry) == (judge, entry)]
        speedups = [answer.speedup for answer in own if answer.speedup is not None]
        answers[entry] = (own[-1].verdict, median(speedups) if speedups else None)
    return answers


def table(rows: Sequence[Column]) -> list[str]:
    """For a terminal."""
    lines = ["phase  judge     n  per min   p50 s   p95 s  overhead  beside GPU  GPU kept  calls"]
    for row in rows:
        over = "-" if row.overhead_p50_s is None else f"{row.overhead_p50_s:.3f}"
        beside = "-" if row.beside_p50_s is None else f"{row.beside_p50_s:.3f}"
        kept = "-" if row.alone_share is None else f"{100 * row.alone_share:.0f} %"
        calls = "-" if row.timed_calls is None else f"{row.timed_calls:.0f}"
        lines.append(
            f"{row.phase:6} {row.judge:6} {row.n:4} {row.per_minute:8.1f} {row.p50_s:7.2f} {row.p95_s:7.2f} "
            f"{over:>9} {beside:>11} {kept:>9} {calls:>6}"
        )
    return lines


def to_json(samples: Sequence[Sample], rows: Sequence[Column], agreed: Agreement) -> dict[str, Any]:
    """Everything, raw samples included."""
    return {
        "columns": [asdict(row) for row in rows],
        "agreement": asdict(agreed),
        "samples": [asdict(sample) for sample in samples],
    }
