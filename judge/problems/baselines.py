"""The baselines of a problem, timed by its preflight: the first best kernel then finds their times."""

from __future__ import annotations

import time

from judge.bench.runner import Bench
from judge.values import BASELINES, JudgeError, Limits, ProblemSpec, StageRecord

_LABELS = {one.subject: one.label for one in BASELINES.values()}


def baselines_stage(problem: ProblemSpec, *, bench: Bench, limits: Limits) -> StageRecord:
    """Time what has no time yet. Without it, the first best kernel has them timed after its audit."""
    started = time.monotonic()
    try:
        found = bench.time_baselines(problem, limits=limits)
    except JudgeError:
        return _stage(started, "warned", "the judge failed to time them; they are timed with the first best kernel")
    said = ", ".join(f"{_LABELS[one.subject]} {one.median_us:,.0f} µs" for one in found)
    return _stage(started, "ok", said or "none is left to time, or they wait for the first best kernel")


def _stage(started: float, state: str, detail: str) -> StageRecord:
    return StageRecord("baselines", state, (time.monotonic() - started) * 1e3, detail)
