"""Both judges on every kernel by turns: cold first, then warm in bursts, then warm with pauses, within a budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tests.benchmarks.comparison.corpus import Entry
from tests.benchmarks.comparison.judges import Answer, Rival

COLD, BURST, PACED = "cold", "burst", "paced"
PHASES = (COLD, BURST, PACED)


@dataclass(frozen=True)
class Sample:
    """One evaluation by one judge."""

    judge: str
    entry: str
    phase: str
    answer: Answer


@dataclass(frozen=True)
class Plan:
    """How much is done. `budget_s` ends the contest before an evaluation that would begin later; None: no end."""

    repeats: int = 5  # in a burst
    pause_s: float = 1.0  # before each paced evaluation; 0 leaves that phase out
    budget_s: float | None = None

    def __post_init__(self) -> None:
        if self.repeats < 1 or self.pause_s < 0 or (self.budget_s is not None and self.budget_s <= 0):
            raise ValueError("repeats count from 1, pauses from 0, and a budget is positive")


def contest(
    entries: Sequence[Entry],
    rivals: Sequence[Rival],
    plan: Plan,
    *,
    told: Callable[[Sample], None] = lambda sample: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Sample]:
    """The samples, in order. A kernel is done with by both judges before the next one begins."""
    end = None if plan.budget_s is None else clock() + plan.budget_s
    found: list[Sample] = []
    for number, entry in enumerate(entries):
        order = rivals if number % 2 == 0 else rivals[::-1]  # neither always finds the machine as the other left it
        for phase in _phases(plan):
            for rival in order:
                if end is not None and clock() >= end:
                    return found
                if phase == PACED:
                    sleep(plan.pause_s)
                sample = Sample(rival.name, entry.id, phase, rival.judge(entry))
                told(sample)
                found.append(sample)
    return found


def _phases(plan: Plan) -> Iterable[str]:
    return (COLD, *[BURST] * plan.repeats, *([PACED] if plan.pause_s else []))
