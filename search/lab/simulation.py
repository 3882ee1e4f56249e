"""One simulated search: the real `decide` on a known space, many steps in flight, completion in random order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random

from search.algorithm.decide import Decision, decide, node_rng
from search.algorithm.params import SearchParams
from search.algorithm.ranking import reward
from search.algorithm.tree import LARGE, Tree
from search.lab.moves import large_step, small_step
from search.lab.spaces import Config, Outcome, Space

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
