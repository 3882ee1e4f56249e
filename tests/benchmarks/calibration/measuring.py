"""The step on a GPU: the same points by the judge's own evaluation and clock, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from judge.bench.runner import Bench
from judge.values import Job, JudgeError, Limits, Outcome, Subject
from tests.benchmarks.calibration.points import Point
from tests.benchmarks.calibration.records import Times

LIMITS = Limits(wall_s=60, stage_s=40)


@dataclass(frozen=True)
class Machine:
    """Where and when, for the records."""

    device: str  # "cuda:0"
    gpu: str
    arch: str
    date: str


def measure_all(
    points: Iterable[Point],
    bench: Bench,
    machine: Machine,
    told: Callable[[Point, Times | str], None],
    *,
    end: float = float("inf"),
) -> None:
    """Judge and time every point; `told` hears each with its times, or why there are none.

    None begins after `end`, by the monotonic clock.
    """
    for point in points:
        if time.monotonic() >= end:
            return
        # beat: no audit and no second pair of processes, since none is to become a best
        job = Job(point.id, point.spec, point.source, limits=LIMITS, beat=float("inf"))
        try:
            told(point, times_of(point, bench.evaluate(job), machine))
        except (JudgeError, ValueError) as error:
            told(point, str(error)[:300])


def times_of(point: Point, outcome: Outcome, machine: Machine) -> Times:
    """Both medians. Raises ValueError with the verdict of what did not pass."""
    found = {timing.subject: timing for timing in outcome.timings}
    if Subject.CANDIDATE not in found or Subject.EAGER not in found:
        raise ValueError(f"{outcome.verdict} {outcome.reason} {outcome.message}"[:300])
    return Times(
        id=point.id,
        digest=point.digest,
        candidate_us=found[Subject.CANDIDATE].median_us,
        eager_us=found[Subject.EAGER].median_us,
        n=found[Subject.CANDIDATE].n,
        gpu=machine.gpu,
        arch=machine.arch,
        toolchain=str(outcome.environment.get("toolchain", "")),
        date=machine.date,
    )
