"""All pairs of space, workers and contender with the same seeds for each: simulated, summed up, compared in pairs."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field

import numpy as np

from search.lab.contenders import Contender
from search.lab.estimates import Floats
from search.lab.simulation import Conditions, simulate
from search.lab.spaces import Space

PROTOCOL = 1  # raised whenever a figure may change: moves, reference, times, resampling
MAX_SEEDS, MAX_STEPS, MAX_WORKERS = 10_000, 10_000, 1_000

Progress = Callable[["Cell", int, int], None]  # a cell that is done, how many are, how many there will be


@dataclass(frozen=True)
class Plan:
    """What is compared on what, everybody with the same `seeds` seeds from `first_seed` on."""

    spaces: tuple[Space, ...]
    contenders: tuple[Contender, ...]
    workers: tuple[int, ...] = (1, 4, 16, 32)
    seeds: int = 200
    steps: int = 100
    skip_duplicates: bool = False
    first_seed: int = 0

    def __post_init__(self) -> None:
        if not self.spaces or not self.contenders or not self.workers:
            raise ValueError("a plan needs spaces, contenders and workers")
        _within("seeds", self.seeds, MAX_SEEDS)
        _within("steps", self.steps, MAX_STEPS)
        for count in self.workers:
            _within("workers", count, MAX_WORKERS)
        names = [space.name for space in self.spaces]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"Two spaces are called {twice!r}. Give each file a name of its own.")

    @property
    def points(self) -> tuple[int, ...]:
        """The numbers of told steps that figures are given for."""
        return tuple(sorted({point for point in (25, 50, 100) if point <= self.steps} | {self.steps}))

    @property
    def baseline(self) -> str:
        """The contender that all others are compared with: the first."""
        return self.contenders[0].name

    def cells(self) -> list[Cell]:
        """Every pair, the baseline first, so that what is there after a stop can be compared."""
        return [
            Cell(space, workers, contender)
            for space in self.spaces
            for workers in self.workers
            for contender in self.contenders
        ]


@dataclass(frozen=True)
class Cell:
    """One contender on one space with so many steps in flight."""

    space: Space
    workers: int
    contender: Contender

    @property
    def key(self) -> tuple[str, int, str]:
        return self.space.name, self.workers, self.contender.name


@dataclass
class Findings:
    """Curves by cell key, seeds x steps; `partial` when the plan was not done to its end."""

    plan: Plan
    curves: dict[tuple[str, int, str], Floats] = field(default_factory=dict)

    @property
    def partial(self) -> bool:
        return len(self.curves) < len(self.plan.cells())

    @property
    def steps_told(self) -> int:
        return sum(curve.size for curve in self.curves.values())


def explore(plan: Plan, findings: Findings, *, jobs: int, progress: Progress) -> None:
    """Fill `findings` cell by cell with `jobs` processes. A KeyboardInterrupt leaves in it what is done."""
    cells = plan.cells()
    for done, (cell, curves) in enumerate(_worked(plan, cells, jobs), start=1):
        findings.curves[cell.key] = curves
        progress(cell, done, len(cells))


def _worked(plan: Plan, cells: Sequence[Cell], jobs: int) -> Iterator[tuple[Cell, Floats]]:
    if jobs == 1:
        for cell in cells:
            yield cell, cell_curves(plan, cell)
        return
    with ProcessPoolExecutor(jobs, initializer=_leave_interrupts_to_the_parent) as pool:
        futures = {pool.submit(cell_curves, plan, cell): cell for cell in cells}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def cell_curves(plan: Plan, cell: Cell) -> Floats:
    """Best found as a share of the optimum: seeds x steps."""
    conditions = Conditions(plan.steps, cell.workers, plan.skip_duplicates, cell.contender.pending)
    rows = [
        simulate(cell.space, cell.contender.params, conditions, seed)
        for seed in range(plan.first_seed, plan.first_seed + plan.seeds)
    ]
    return np.array(rows, dtype=np.float64)


def _within(name: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise ValueError(f"{name} must be from 1 to {most}, not {value}.")
