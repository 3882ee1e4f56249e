"""What people asked of a search: actions folded from the run's log in order, as a pure value that `decide` honours.

An action holds from its place in the log on and for what is decided after it. Undoing one takes it out of the fold, so
that whatever it covered comes back: the boost before it, the pins that its prune had released.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from search.algorithm.params import SearchParams
from search.algorithm.tree import LARGE, SMALL, Branch, Tree

PIN, PRUNE, RESTORE, BOOST, FORCE = "pin", "prune", "restore", "boost", "force"
NOTE, PARAMS, BUDGET, INJECT = "note", "params", "budget", "inject"
VERBS = (PIN, PRUNE, RESTORE, BOOST, FORCE, NOTE, PARAMS, BUDGET, INJECT)


@dataclass(frozen=True)
class SteeringAction:
    """One action of a person; `seq` is its place in the log and its name. Only the fields of its verb are set.

    `node` is whom it is about, None for the whole run. A pin asks for `quota` selections at or below its node. A boost
    of 0 clears. A prune `releases` pins and forced steps at or below its node. `steps` were added to the budget.
    One of a `batch`, the number of its first event, is about one node or about `nodes`, and undone with the batch.
    """

    seq: int
    verb: str
    node: int | None = None
    quota: int = 0
    boost: float = 0.0
    kind: str = ""
    text: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    steps: int = 0
    releases: tuple[int, ...] = ()
    nodes: tuple[int, ...] = ()
    batch: int = 0

    def __post_init__(self) -> None:
        if self.verb not in VERBS:
            raise ValueError(f"unknown action {self.verb!r}")
        if self.node is None and not self.batch and self.verb not in (FORCE, PARAMS, BUDGET):
            raise ValueError(f"{self.verb} needs a node")
        if self.verb == PIN and (self.quota < 1 or self.node is None):
            raise ValueError("a pin asks for at least one selection")
        if self.verb == FORCE and self.kind not in (LARGE, SMALL):
            raise ValueError(f"unknown step kind {self.kind!r}")
        if not math.isfinite(self.boost):
            raise ValueError("a boost is a finite number")

    @property
    def about(self) -> tuple[int, ...]:
        """The nodes that the action is done to."""
        return self.nodes if self.node is None else (self.node,)


@dataclass(frozen=True)
class Pin:
    """A pin with selections left."""

    seq: int
    node: int
    left: int


@dataclass(frozen=True)
class Steering:
    """The actions that were not undone, in log order, and per action the nodes reserved for it, less withdrawn ones."""

    actions: tuple[SteeringAction, ...] = ()
    uses: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    def plus(self, *actions: SteeringAction) -> Steering:
        """With these actions after all others."""
        return Steering((*self.actions, *actions), self.uses)

    def without(self, seq: int) -> Steering:
        """As if that action, or all of that batch, had never been; an unknown one changes nothing."""
        return Steering(tuple(action for action in self.actions if seq not in (action.seq, action.batch)), self.uses)

    def used(self, number: int, seqs: Iterable[int]) -> Steering:
        """Node `number` was reserved for these actions."""
        more = {seq: (*self.uses.get(seq, ()), number) for seq in seqs}
        return Steering(self.actions, {**self.uses, **more}) if more else self

    def freed(self, number: int) -> Steering:
        """Node `number` was withdrawn: the actions it was reserved for have it to give again."""
        if not any(number in numbers for numbers in self.uses.values()):
            return self
        return Steering(
            self.actions, {seq: tuple(n for n in numbers if n != number) for seq, numbers in self.uses.items()}
        )

    def action(self, seq: int) -> SteeringAction | None:
        """The action of this number, or the first of the batch of this number."""
        return next((action for action in self.actions if seq in (action.seq, action.batch)), None)

    @cached_property
    def released(self) -> frozenset[int]:
        """Pins and forced steps that a prune has ended. A restore does not bring them back; undoing the prune does."""
        return frozenset(seq for action in self.actions if action.verb == PRUNE for seq in action.releases)

    @cached_property
    def pruned(self) -> frozenset[int]:
        """Roots of the subtrees that are never selected."""
        pruned: set[int] = set()
        for action in self.actions:
            if action.verb == PRUNE:
                pruned.update(action.about)
            elif action.verb == RESTORE:
                pruned.difference_update(action.about)
        return frozenset(pruned)

    @cached_property
    def boosts(self) -> dict[int, float]:
        """What is added to the score of a node, by its number; the last action on a node counts."""
        boosts = {node: action.boost for action in self.actions if action.verb == BOOST for node in action.about}
        return {node: boost for node, boost in boosts.items() if boost}

    @cached_property
    def pins(self) -> tuple[Pin, ...]:
        """Pins with selections left, the oldest first."""
        pins = [
            Pin(action.seq, action.node, action.quota - len(self.uses.get(action.seq, ())))
            for action in self.actions
            if action.verb == PIN and action.node is not None and action.seq not in self.released
        ]
        return tuple(pin for pin in pins if pin.left > 0)

    @cached_property
    def forces(self) -> tuple[SteeringAction, ...]:
        """Forced steps that were not taken yet, the oldest first."""
        return tuple(
            action
            for action in self.actions
            if action.verb == FORCE and action.seq not in self.released and not self.uses.get(action.seq)
        )

    @cached_property
    def notes(self) -> tuple[SteeringAction, ...]:
        return tuple(action for action in self.actions if action.verb == NOTE)

    def params(self, first: SearchParams) -> SearchParams:
        """The parameters in force, `first` being those the run began with. Raises ValueError when they do not agree."""
        changed: dict[str, Any] = {}
        for action in self.actions:
            changed |= action.params
        return SearchParams.from_json(first.to_json() | changed) if changed else first

    @property
    def effects(self) -> tuple[object, ...]:
        """Everything that later decisions hang on, but for the parameters. Equal effects: nothing would differ."""
        return (self.pruned, self.boosts, self.pins, self.forces, self.notes)

    def mark(self, tree: Tree) -> None:
        """Close what is pruned in `tree` and set the boosts. Costs nothing while neither has changed."""
        marks = (self.pruned, self.boosts)
        if tree.marks == marks:
            return
        for branch in tree.branches.values():
            branch.closed, branch.boost = False, 0.0
        for number in self.pruned & tree.branches.keys():
            for below in tree[number].down():
                below.closed = True
        for number in self.boosts.keys() & tree.branches.keys():
            tree[number].boost = self.boosts[number]
        tree.marks = marks

    def forced_at(self, tree: Tree) -> SteeringAction | None:
        """The oldest forced step at a node that can be taken now; the others wait for their node's verdict."""
        for action in self.forces:
            branch = None if action.node is None else tree.branches.get(action.node)
            if branch is not None and branch.told and not branch.closed and _possible(action.kind, branch):
                return action
        return None

    def forced_kind(self, branch: Branch) -> SteeringAction | None:
        """The oldest forced step without a node that can be taken at this one: a small step needs a kernel."""
        return next((action for action in self.forces if action.node is None and _possible(action.kind, branch)), None)

    def pinned_to(self, tree: Tree) -> Pin | None:
        """The oldest pin whose node can be selected now."""
        for pin in self.pins:
            branch = tree.branches.get(pin.node)
            if branch is not None and branch.told and not branch.closed:
                return pin
        return None

    def notes_on(self, branch: Branch) -> tuple[int, ...]:
        """The notes that a step from this node reads: those at it and above it, the oldest first."""
        if not self.notes:
            return ()
        path = {step.number for step in branch.up()}
        return tuple(action.seq for action in self.notes if action.node in path)


def _possible(kind: str, branch: Branch) -> bool:
    return kind == LARGE or (branch.written and not branch.is_root)


FREE = Steering()


def spans(numbers: Iterable[int], most_chars: int) -> list[str]:
    """The numbers in ascending order, as texts of up to about `most_chars` letters. No numbers: no text."""
    texts: list[str] = []
    for first, last in _runs(sorted(set(numbers))):
        part = str(first) if first == last else f"{first}-{last}"
        if texts and len(texts[-1]) + 1 + len(part) <= most_chars:
            texts[-1] += f",{part}"
        else:
            texts.append(part)
    return texts


def spans_read(text: str) -> tuple[int, ...]:
    """The numbers of one such text. Raises ValueError for any other."""
    found: list[int] = []
    for part in text.split(",") if text else ():
        first, dash, last = part.partition("-")
        found += range(int(first), int(last) + 1) if dash else [int(first)]
    return tuple(found)


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
