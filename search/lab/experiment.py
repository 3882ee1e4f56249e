"""Simulated searches of all contenders on all spaces: the real decisions, many steps in flight, the same seeds."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

import numpy as np
from numpy.typing import NDArray

from search.algorithm.decide import Decision, decide, node_rng
from search.algorithm.params import ALIASES, POLICY_NAMES, PRESETS, SearchParams, preset_get
from search.algorithm.ranking import reward
from search.algorithm.tree import LARGE, Tree
from search.lab.spaces import Config, Outcome, Space, large_step, small_step

Floats = NDArray[np.float64]
SPREAD = 0.5  # sigma of the lognormal time a step takes, median 1
REDRAWS = 20
PENDING = ("counted", "loss", "ignored")


@dataclass(frozen=True)
class Conditions:
    """How a search is run: steps to tell, steps in flight, whether a configuration that was drawn before is drawn again
    (up to 20 times), and what the tree makes of steps in flight.

    `counted` is the product's way: a visit in the exploration terms and a child, nothing in the means. With `loss` they
    also stand in the means as visits without reward (virtual loss); `ignored` leaves them out of the tree.
    """

    steps: int = 100
    workers: int = 1
    skip_duplicates: bool = False
    pending: str = "counted"

    def __post_init__(self) -> None:
        if self.pending not in PENDING:
            raise ValueError(f"pending must be one of {', '.join(PENDING)}, not {self.pending!r}.")
        if self.steps < 1 or self.workers < 1:
            raise ValueError("steps and workers must be 1 or more")


def simulate(space: Space, params: SearchParams, conditions: Conditions, seed: int) -> list[float]:
    """Best speedup found as a share of the optimum, after each told step; 0 while nothing is correct.

    The same arguments give the same figures. Step n draws from generators of (seed, n) only, so that two policies with
    the same seed meet the same luck as long as they decide alike.
    """
    search = _Search(space, params, conditions, seed)
    found, best = [], 0.0
    for outcome in search.outcomes():
        best = max(best, outcome.speedup or 0.0)
        found.append(best / space.optimum)
    return found


class _Search:
    """The state of one simulated search."""

    def __init__(self, space: Space, params: SearchParams, conditions: Conditions, seed: int) -> None:
        self.space, self.params, self.conditions, self.seed = space, params, conditions, seed
        self.tree = Tree(log=params.log)
        self.configs: dict[int, Config] = {}
        self.seen: set[Config] = set()
        self.flying: list[tuple[float, int]] = []  # (time of completion, number)
        self.decided: dict[int, Decision] = {}

    def outcomes(self) -> Iterator[Outcome]:
        """What each step comes to, in completion order."""
        now, number = 0.0, 0
        while number < self.conditions.steps or self.flying:
            while number < self.conditions.steps and len(self.flying) < self.conditions.workers:
                number += 1
                self._reserve(number, now)
            now, told = heappop(self.flying)
            yield self._tell(told)

    def _reserve(self, number: int, now: float) -> None:
        decision = decide(self.tree, self.params, node_rng(self.seed, number))
        rng = Random(f"{self.seed}:{number}:proposal")
        heappush(self.flying, (now + rng.lognormvariate(0, SPREAD), number))
        self.decided[number], self.configs[number] = decision, self._propose(decision, rng)
        self.seen.add(self.configs[number])
        if self.conditions.pending != "ignored":
            self.tree.reserve(number, decision.parent, decision.kind)
        self._lose(number, 1)

    def _propose(self, decision: Decision, rng: Random) -> Config:
        for _ in range(REDRAWS if self.conditions.skip_duplicates else 1):
            config = self._draw(decision, rng)
            if config not in self.seen:
                break
        return config

    def _draw(self, decision: Decision, rng: Random) -> Config:
        if decision.kind == LARGE:
            return large_step(self.space, [self.configs[number] for number in decision.context], rng)
        return small_step(self.space, self.configs[decision.parent], rng)

    def _tell(self, number: int) -> Outcome:
        config, decision = self.configs[number], self.decided.pop(number)
        outcome = self.space.outcome(config)
        self._lose(number, -1)
        if self.conditions.pending == "ignored":
            self.tree.reserve(number, decision.parent, decision.kind)
        worth = reward(loads=outcome.loads, correct=outcome.speedup is not None, speedup=outcome.speedup)
        cell = ":".join(str(config[place]) for place in self.space.cells)
        self.tree.tell(number, worth, speedup=outcome.speedup, cell=cell)
        return outcome

    def _lose(self, number: int, visits: int) -> None:
        """Under virtual loss, turn the pending visit along the path into a real one without reward, or back."""
        if self.conditions.pending == "loss":
            for step in self.tree[number].up():
                step.pending -= visits
                step.visits += visits


PAPER = "paper-l2"  # what all others are compared with, unless something else is named
ALWAYS = (PAPER, "independent", "greedy")
_PENDING = "pending="
USUAL = (PAPER, "paper-l3", "default", "greedy", "independent", "chain", "map_elites")


@dataclass(frozen=True)
class Contender:
    """Parameters under the name they are shown by, and what the tree makes of steps in flight."""

    name: str
    params: SearchParams
    pending: str = "counted"

    def __post_init__(self) -> None:
        if self.pending not in PENDING:
            raise ValueError(f"{self.name}: pending must be one of {', '.join(PENDING)}, not {self.pending!r}.")


def contender_of(text: str) -> Contender:
    """`default` (a preset), `chain` (a policy), or `uct:reward=log,pending=ignored` (either, with changes).

    Raises ValueError with what is expected.
    """
    name, _, changes = text.partition(":")
    pairs = [pair.strip() for pair in changes.split(",") if pair.strip()]
    pending = next((pair.removeprefix(_PENDING) for pair in pairs if pair.startswith(_PENDING)), "counted")
    pairs = [pair for pair in pairs if not pair.startswith(_PENDING)]
    if name in POLICY_NAMES:
        return Contender(text, SearchParams.from_texts(pairs, {"policy": name}), pending)
    if name not in PRESETS and name not in ALIASES:
        known = ", ".join((*PRESETS, *POLICY_NAMES))
        raise ValueError(f"{text!r} is not a policy. Use one of {known}, or uct:reward=log,w=0.1.")
    preset = preset_get(name)
    shown = f"{preset.name}:{changes}" if changes else preset.name
    return Contender(shown, SearchParams.from_texts(pairs, preset.params.to_json()), pending)


def contenders_of(texts: Iterable[str], baseline: str = PAPER) -> tuple[Contender, ...]:
    """One each: the baseline, then in the order named; `paper-l2`, `independent` and `greedy` are always there."""
    found = {contender.name: contender for contender in map(contender_of, (baseline, *texts, *ALWAYS))}
    return tuple(found.values())


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
