"""The search tree in memory, rebuilt from recorded facts. Its statistics are replayed, never stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

ROOT, LARGE, SMALL = "root", "large", "small"


@dataclass(frozen=True, slots=True)
class Fact:
    """What is recorded of one node. `told` is its place in completion order, None while it is pending.

    The root has no parent and is told at birth. `speedup` is None unless the kernel is correct. `written` says whether
    there is a source to improve on.
    """

    number: int
    parent: int | None
    kind: str
    told: int | None = None
    reward: float = 0.0
    speedup: float | None = None
    written: bool = True


@dataclass(slots=True, eq=False)
class Branch:
    """One node with the statistics of the subtree below it: `visits`, `pending`, `total` and `best` reward."""

    number: int
    parent: Branch | None
    kind: str
    depth: int
    children: list[Branch] = field(default_factory=list)  # in the order of reservation: ties go to the first
    told: bool = False
    visits: int = 0
    pending: int = 0
    total: float = 0.0
    best: float = 0.0
    own: float = 0.0  # the reward this node was told with
    speedup: float | None = None
    written: bool = False

    @property
    def is_root(self) -> bool:
        return self.parent is None

    def up(self) -> Iterable[Branch]:
        """The node itself, then its ancestors up to the root."""
        branch: Branch | None = self
        while branch is not None:
            yield branch
            branch = branch.parent


class Tree:
    """Branches by number. `reserve`, `tell` and `cancel` keep the statistics of the path right.

    After drain `visits` of a node is 1 + the sum over its children; the root itself is never visited.
    """

    def __init__(self) -> None:
        self.root = Branch(0, None, ROOT, 0, told=True)
        self.branches: dict[int, Branch] = {0: self.root}

    @classmethod
    def replay(cls, facts: Iterable[Fact]) -> Tree:
        """The tree of these facts, rewards backed up in told order. Raises KeyError when a parent is unknown."""
        tree = cls()
        told = []
        for fact in sorted(facts, key=lambda fact: fact.number):
            if fact.parent is None:
                continue
            branch = tree._add(fact.number, fact.parent, fact.kind)
            branch.told = fact.told is not None
            branch.visits, branch.pending = int(branch.told), int(not branch.told)
            if fact.told is not None:
                branch.own = branch.best = fact.reward
                branch.speedup, branch.written = fact.speedup, fact.written
                told.append((fact.told, branch))
        told.sort(key=lambda pair: pair[0])
        tree._sum_up([branch for _, branch in told])
        return tree

    def _sum_up(self, told: list[Branch]) -> None:
        """Add every branch's part to its ancestors. Rewards go up in told order: float sums depend on it."""
        for branch in told:
            reward, step = branch.own, branch if branch.own else None
            while step is not None:
                step.total += reward
                step = step.parent
        for branch in reversed(self.branches.values()):  # children come after their parents
            above = branch.parent
            if above is not None:
                above.visits += branch.visits
                above.pending += branch.pending
                above.best = max(above.best, branch.best)

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
        branch = Branch(number, above, kind, above.depth + 1)
        above.children.append(branch)
        self.branches[number] = branch
        return branch

    def tell(self, number: int, reward: float, *, speedup: float | None = None, written: bool = True) -> None:
        """Turn the pending visit into a real one and back the reward up. A second tell changes nothing."""
        branch = self.branches[number]
        if branch.told:
            return
        branch.told, branch.own, branch.speedup, branch.written = True, reward, speedup, written
        for step in branch.up():
            step.pending -= 1
            step.visits += 1
            step.total += reward
            step.best = max(step.best, reward)

    def cancel(self, number: int) -> None:
        """Withdraw a pending node without a trace. Does nothing when it is told or gone."""
        branch = self.branches.get(number)
        if branch is None or branch.told or branch.parent is None:
            return
        for step in branch.up():
            step.pending -= 1
        branch.parent.children.remove(branch)
        del self.branches[number]
