"""The search tree in memory, rebuilt from recorded facts. Its statistics are replayed, never stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from search.algorithm.ranking import log_reward


@dataclass(slots=True, eq=False)
class Branch:
    """One node with the statistics of the subtree below it: `visits`, `pending`, `total` and `best` reward."""

    number: int
    parent: Branch | None
    kind: str
    depth: int
    children: list[Branch] = field(default_factory=list)  # in the order of reservation: ties go to the first
    told: bool = False
    order: int = 0  # place in completion order, 0 until told
    visits: int = 0
    pending: int = 0
    total: float = 0.0
    best: float = 0.0
    own: float = 0.0  # its own reward as it counts now
    speedup: float | None = None
    written: bool = False
    cell: str = ""
    closed: bool = False  # pruned by a person, itself or from above: never selected
    boost: float = 0.0  # added by a person to its score, nowhere else

    @property
    def is_root(self) -> bool:
        return self.parent is None

    def up(self) -> Iterable[Branch]:
        """The node itself, then its ancestors up to the root."""
        branch: Branch | None = self
        while branch is not None:
            yield branch
            branch = branch.parent

    def down(self) -> Iterable[Branch]:
        """The node itself, then everything below it."""
        stack = [self]
        while stack:
            branch = stack.pop()
            yield branch
            stack.extend(reversed(branch.children))


DEEP = 48  # mean depth from which arrays are faster


def sum_rewards(branches: Sequence[Branch], told: Sequence[Branch]) -> None:
    """Set `total` of every branch. `branches` hold parents before children, `told` is in told order."""
    for branch in branches:
        branch.total = 0.0
    worth = [branch for branch in told if branch.own]  # adding 0 changes no sum
    if sum(branch.depth for branch in worth) > DEEP * len(branches):
        _along_paths(branches, worth)
    else:
        _step_by_step(worth)


def _step_by_step(told: Iterable[Branch]) -> None:
    for branch in told:
        reward = branch.own
        step: Branch | None = branch
        while step is not None:
            step.total += reward
            step = step.parent


def _along_paths(branches: Sequence[Branch], told: Iterable[Branch]) -> None:
    heavy = _heavy_children(branches)
    place: dict[int, int] = {}
    head: dict[int, Branch] = {}  # of the path a node lies on
    for branch in branches:
        step: Branch | None = None if branch.number in place else branch
        while step is not None:
            place[step.number], head[step.number] = len(place), branch
            step = heavy.get(step.number)
    totals = np.zeros(len(branches))
    for branch in told:
        reward = branch.own
        step = branch
        while step is not None:
            top = head[step.number]
            totals[place[top.number] : place[step.number] + 1] += reward
            step = top.parent
    for branch in branches:
        branch.total = float(totals[place[branch.number]])


def _heavy_children(branches: Sequence[Branch]) -> dict[int, Branch]:
    """By number of the parent, the child with the largest subtree, the last of equals."""
    sizes = {branch.number: 1 for branch in branches}
    heavy: dict[int, Branch] = {}
    for branch in reversed(branches):
        above = branch.parent
        if above is None:
            continue
        sizes[above.number] += sizes[branch.number]
        if above.number not in heavy or sizes[branch.number] > sizes[heavy[above.number].number]:
            heavy[above.number] = branch
    return heavy


__all__ = ["LARGE", "ROOT", "SMALL", "Branch", "Fact", "Tree"]

ROOT, LARGE, SMALL = "root", "large", "small"


@dataclass(frozen=True, slots=True)
class Fact:
    """What is recorded of one node. `told` is its place in completion order, None while it is pending.

    The root has no parent and is told at birth. `reward` is the publication's. `speedup` is None unless the kernel is
    correct. `written` says whether there is a source to improve on. `cell` is the kernel's place in a grid of kinds.
    """

    number: int
    parent: int | None
    kind: str
    told: int | None = None
    reward: float = 0.0
    speedup: float | None = None
    written: bool = True
    cell: str = ""


class Tree:
    """Branches by number. `reserve`, `tell` and `cancel` keep the statistics of the path right.

    After drain `visits` of a node is 1 + the sum over its children; the root itself is never visited.
    With `log` a correct kernel is worth `log_reward` against the highest speedup told so far. A new best changes all
    of these: they are summed again in told order, so that a tree that grew is its facts replayed, to the last bit.
    """

    def __init__(self, *, log: bool = False) -> None:
        self.root = Branch(0, None, ROOT, 0, told=True)
        self.branches: dict[int, Branch] = {0: self.root}
        self.log = log
        self.top = 0.0  # highest speedup told
        self._told: list[Branch] = []  # in told order
        self.marks: tuple[frozenset[int], dict[int, float]] = (frozenset(), {})  # see Steering.mark

    @classmethod
    def replay(cls, facts: Iterable[Fact], *, log: bool = False) -> Tree:
        """The tree of these facts, rewards backed up in told order. Raises KeyError when a parent is unknown."""
        tree = cls(log=log)
        for fact in sorted(facts, key=lambda fact: fact.number):
            if fact.parent is None:
                continue
            branch = tree._add(fact.number, fact.parent, fact.kind)
            branch.told = fact.told is not None
            branch.visits, branch.pending = int(branch.told), int(not branch.told)
            if fact.told is not None:
                branch.order, branch.own = fact.told, fact.reward
                branch.speedup, branch.written, branch.cell = fact.speedup, fact.written, fact.cell
                tree.top = max(tree.top, fact.speedup or 0.0)
                tree._told.append(branch)
        tree._told.sort(key=lambda branch: branch.order)
        for branch in reversed(tree.branches.values()):  # children come after their parents
            if branch.parent is not None:
                branch.parent.visits += branch.visits
                branch.parent.pending += branch.pending
        tree._sum_up()
        return tree

    def _sum_up(self) -> None:
        """Own reward, total and best of every node from what was told. In told order: float sums depend on it."""
        branches = list(self.branches.values())
        for branch in branches:
            branch.best = 0.0
        for branch in self._told:
            branch.own = branch.best = self._worth(branch.own, branch.speedup)
        sum_rewards(branches, self._told)
        for branch in reversed(branches):  # children come after their parents
            if branch.parent is not None:
                branch.parent.best = max(branch.parent.best, branch.best)

    def _worth(self, reward: float, speedup: float | None) -> float:
        return reward if speedup is None or not self.log else log_reward(speedup, self.top)

    def __getitem__(self, number: int) -> Branch:
        return self.branches[number]

    def reserve(self, number: int, parent: int, kind: str) -> Branch:
        """Add a pending node: a pending visit along the path, no reward."""
        branch = self._add(number, parent, kind)
        for step in branch.up():
            step.pending += 1
        return branch

    def _add(self, number: int, parent: int, kind: str) -> Branch:
        above = self.branches[parent]
        branch = Branch(number, above, kind, above.depth + 1, closed=above.closed)
        above.children.append(branch)
        self.branches[number] = branch
        return branch

    def tell(
        self, number: int, reward: float, *, speedup: float | None = None, written: bool = True, cell: str = ""
    ) -> None:
        """Turn the pending visit into a real one and back the reward up. A second tell changes nothing."""
        branch = self.branches[number]
        if branch.told:
            return
        branch.told, branch.own, branch.speedup, branch.written, branch.cell = True, reward, speedup, written, cell
        branch.order = self._told[-1].order + 1 if self._told else 1
        self._told.append(branch)
        for step in branch.up():
            step.pending -= 1
            step.visits += 1
        better = speedup is not None and speedup > self.top
        self.top = max(self.top, speedup or 0.0)
        if better and self.log:
            self._sum_up()
            return
        worth = branch.own = self._worth(reward, speedup)
        for step in branch.up():
            step.total += worth
            step.best = max(step.best, worth)

    def cancel(self, number: int) -> None:
        """Withdraw a pending node without a trace. Does nothing when it is told or gone."""
        branch = self.branches.get(number)
        if branch is None or branch.told or branch.parent is None:
            return
        for step in branch.up():
            step.pending -= 1
        branch.parent.children.remove(branch)
        del self.branches[number]
