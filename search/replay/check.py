"""Is a run what its log says? Every decision is made again and every number counted again, then compared."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from random import Random
from typing import Any, NamedTuple

from django.db import transaction

from memory.prompting.assignment import FrozenRules
from memory.prompting.queries import arms_of, frozen_of
from search.algorithm.decide import Decision, decide, large_pool, node_rng, small_window
from search.algorithm.params import SearchParams
from search.algorithm.policies import POLICIES
from search.algorithm.ranking import reward
from search.algorithm.steering import Steering
from search.algorithm.tree import LARGE, Tree
from search.interchange.recording import RecordedStep, Recording
from search.records.events import (
    BudgetAdded,
    BudgetTaken,
    Event,
    KernelInjected,
    KernelMarked,
    NodeBest,
    NodeCancelled,
    NodeCompleted,
    NodeReserved,
    ParamsChanged,
    RunEnded,
    RunStarted,
    Steered,
    SteeringUndone,
    StepsAdded,
    event_read,
)
from search.records.facts import NodeRow, node_rows, row_tell, tree_of
from search.records.log import steering_of
from search.records.models import Node, Proposal, Run, RunEvent
from search.records.queries import best_number


class Logged(NamedTuple):
    """One event of the log."""

    seq: int
    said: Event


class LogBroken(ValueError):
    """An event cannot follow on those before it: one is missing, doubled or altered. The text says which and why."""


class Rebuilt:
    """A run while its log is read. `apply` the events in order; every attribute is as of the last one applied.

    `budget` counts steps, `in_flight` and `told` nodes without the root; `best` is a node number or None.
    """

    def __init__(self, params: SearchParams, rows: Iterable[NodeRow]) -> None:
        self.first_params = params
        self.rows = {row.number: row for row in rows}
        self.live: dict[int, int | None] = {0: 0}  # number -> told order, None while in flight
        self.steering = Steering()
        self.budget = self.told = 0
        self.best: int | None = None
        self.doubts: dict[int, str] = {}  # number -> why it is no best, where it is not believed
        self._tree: Tree | None = None

    @property
    def params(self) -> SearchParams:
        return self.steering.params(self.first_params)

    @property
    def in_flight(self) -> int:
        return len(self.live) - 1 - self.told

    @property
    def tree(self) -> Tree:
        """Made by the same function as for a live decision, then told verdict by verdict."""
        if self._tree is None:
            self._tree = self.tree_with(self.params)
        return self._tree

    def tree_with(self, params: SearchParams) -> Tree:
        """The tree as these parameters see it: rewards are theirs."""
        return tree_of([self._as_of(number) for number in sorted(self.live)], params)

    def _as_of(self, number: int) -> NodeRow:
        row, order = self.rows[number], self.live[number]
        state = Node.State.PROPOSING if order is None else Node.State.COMPLETED
        return self._believed(row)._replace(state=state, told_order=order)

    def apply(self, logged: Logged) -> None:
        """Take one event in. Raises LogBroken when it cannot follow on those before it."""
        match event := logged.said:
            case RunStarted():
                self.budget = event.steps
            case Steered():
                self.steering = event.fold(self.steering, logged.seq)
                if isinstance(event, StepsAdded | KernelInjected | SteeringUndone) and event.total is not None:
                    self.budget = event.total
                if isinstance(event, ParamsChanged | SteeringUndone):
                    self._tree = None
            case BudgetAdded() | BudgetTaken():
                self.budget = event.after.get("steps", self.budget)
            case NodeReserved():
                self._reserve(event)
            case NodeCompleted():
                self._tell(event.number, event.doubt)
            case KernelMarked():
                self._mark(event.number, event.doubt)
            case NodeCancelled():
                self._cancel(event.number)

    def _reserve(self, event: NodeReserved) -> None:
        number, parent = event.number, event.parent
        if number not in self.rows or number in self.live or parent not in self.live:
            raise LogBroken(f"node {number} is reserved under {parent}: no row, reserved before, or no such parent")
        self.live[number] = None
        self.steering = self.steering.used(number, event.uses)
        if self._tree is not None:
            self._tree.reserve(number, parent, event.kind)

    def _mark(self, number: int, doubt: str) -> None:
        self.doubts[number] = doubt
        if self.params.folds_marks:
            self._tree = None
        told = [self.rows[number] for number, order in self.live.items() if order is not None]
        self.best = best_number(self._believed(row) for row in told)

    def _believed(self, row: NodeRow) -> NodeRow:
        """The row with the doubt of this moment in the log."""
        return row._replace(doubt=self.doubts.get(row.number, ""))

    def _tell(self, number: int, doubt: str) -> None:
        self._must_fly(number, "told")
        self.doubts[number] = doubt
        row = self.rows[number]
        self.live[number] = row.told_order
        self.told += 1
        if self._tree is not None:
            row_tell(self._tree, self._believed(row), self.params)
        others = [] if self.best is None else [self.rows[self.best]]
        self.best = best_number(self._believed(one) for one in (*others, row))

    def _cancel(self, number: int) -> None:
        self._must_fly(number, "cancelled")
        del self.live[number]
        self.steering = self.steering.freed(number)
        if self._tree is not None:
            self._tree.cancel(number)

    def _must_fly(self, number: int, end: str) -> None:
        if self.live.get(number, 0) is not None:
            raise LogBroken(f"node {number} is {end} without being in flight")


def log_of(run_id: int) -> list[Logged]:
    """All events of a run in order."""
    events = RunEvent.objects.filter(run_id=run_id).order_by("seq")
    return [Logged(seq, event_read(kind, said)) for seq, kind, said in events.values_list("seq", "kind", "payload")]


def rebuilt_before(run: Run, number: int) -> Rebuilt | None:
    """The run as it was when node `number` was decided; None when the log holds no such reservation."""
    with transaction.atomic():
        log, rows = log_of(run.pk), node_rows(run.pk)  # in this order: every node of the log has its row
    rebuilt = Rebuilt(SearchParams.of_run(run.params), rows)
    for event in log:
        if isinstance(event.said, NodeReserved) and event.said.number == number:
            return rebuilt
        rebuilt.apply(event)
    return None


CONTEXT_IN_LOG = 50  # of an imported node's context, so many numbers fit into its event


@dataclass(frozen=True)
class Difference:
    """What does not come out as recorded: at event `seq` (0: at the end), by name, ours and the record's."""

    seq: int
    what: str
    ours: Any
    recorded: Any


@dataclass
class ReplayedRun:
    """`decisions` of which `agreed` came out as recorded, `parents` the right parents among them.

    `by_hand` nodes were decided by people; `rules` counts prompts whose rules were assigned again. `first` is the first
    difference of any kind, None when the run is what its log says.
    """

    run: int
    imported: bool
    events: int = 0
    decisions: int = 0
    agreed: int = 0
    parents: int = 0
    by_hand: int = 0
    rules: int = 0
    acts: int = 0
    told: int = 0
    first: Difference | None = None

    @property
    def equal(self) -> bool:
        return self.first is None


@dataclass(frozen=True)
class Record:
    """What is stored of a run, read at one moment."""

    run: Run
    rows: list[NodeRow]
    log: list[Logged]
    decided: Mapping[int, dict[str, Any]]  # number -> parent, kind, context, why, steered, touched
    steering: Steering
    written: frozenset[int]  # nodes whose kernel came as a person's reply
    frozen: FrozenRules  # rules out of memory
    arms: Mapping[int, list[tuple[int, str]]]  # number -> (rule version, arm)


def replay_run(run: Run) -> ReplayedRun:
    """Rebuild `run` from its log and compare. Works on a run in progress too: it is read at one moment."""
    return _Replay(record_of(run)).report


def record_of(run: Run) -> Record:
    """The run's rows and log, consistent with each other: its row is locked while they are read."""
    with transaction.atomic():
        locked = Run.objects.select_for_update().get(pk=run.pk)
        names = ("number", "parent__number", "kind", "context", "why", "steered", "touched", "state")
        decided = {row["number"]: row for row in Node.objects.filter(run=locked).values(*names)}
        replies = Proposal.objects.filter(node__run=locked, model=Proposal.PERSON).values_list(
            "node__number", flat=True
        )
        written = frozenset(replies)
        steering, memory = steering_of(run.pk), (frozen_of(run.pk), arms_of(run.pk))
        return Record(locked, node_rows(run.pk), log_of(run.pk), decided, steering, written, *memory)


@dataclass
class _Replay:
    record: Record
    report: ReplayedRun = field(init=False)

    def __post_init__(self) -> None:
        run = self.record.run
        self.imported = run.origin == Run.Origin.IMPORT
        self.report = ReplayedRun(run.pk, self.imported)
        self.state = Rebuilt(SearchParams.of_run(run.params), self.record.rows)
        self.said_best: int | None = None
        self.seq = 0
        try:
            for event, following in zip_longest(self.record.log, self.record.log[1:]):
                self._event(event, following)
        except LogBroken as error:
            self.same("events that follow on each other", str(error), "")
        else:
            self.seq = 0
            self._end()

    def same(self, what: str, ours: Any, recorded: Any) -> bool:
        """Compare as JSON values; keep the first difference."""
        ours, recorded = _plain(ours), _plain(recorded)
        if ours != recorded and self.report.first is None:
            self.report.first = Difference(self.seq, what, ours, recorded)
        return bool(ours == recorded)

    def _event(self, logged: Logged, following: Logged | None) -> None:
        self.report.events += 1
        self.seq = logged.seq
        self.same("number of the event", self.report.events, logged.seq)
        event = logged.said
        if isinstance(event, NodeReserved):
            self._reserved(event)
        self.state.apply(logged)
        match event:
            case NodeReserved():
                self._within_budget()
            case NodeCompleted():
                self._told(event)
            case NodeBest():
                self.said_best = event.number
                self.same("best node", self.state.best, event.number)
            case KernelMarked():
                self.said_best = event.best
                if following is None or not _one_mark(event, following.said):
                    self.same("best node", self.state.best, event.best)
            case RunEnded():
                self._ended(event)
            case Steered() if not event.is_part:
                self.report.acts += 1

    def _reserved(self, event: NodeReserved) -> None:
        number = event.number
        row = self.record.decided.get(number)
        if row is None:
            raise LogBroken(f"node {number} is reserved and has no row")
        if event.by_hand:
            self.report.by_hand += 1
        else:
            self._decide(number, row)
        self._rules(number, by_hand=event.by_hand)
        said = (event.parent, event.kind, event.context)
        stored = (row["parent__number"], row["kind"], row["context"][:CONTEXT_IN_LOG])
        self.same(f"node {number} in log and row", said, stored)

    def _decide(self, number: int, row: Mapping[str, Any]) -> None:
        state = self.state
        ours = decide(state.tree, state.params, node_rng(self.record.run.seed, number), state.steering)
        self.report.decisions += 1
        self.report.parents += ours.parent == row["parent__number"]
        if not self.imported:  # the random draws of those were not recorded, and their parameters are assumed
            self.report.agreed += self._decided(number, ours, row)

    def _decided(self, number: int, ours: Decision, row: Mapping[str, Any]) -> bool:
        recorded = (row["parent__number"], row["kind"], row["context"], row["steered"], row["why"])
        names = ("parent", "kind", "context", "steering", "scores")
        values = (ours.parent, ours.kind, ours.context, ours.steered, ours.why)
        agreed = [
            self.same(f"{name} of node {number}", value, other)
            for name, value, other in zip(names, values, recorded, strict=True)
        ]
        touched = self.record.decided
        written = number in self.record.written
        hand = written or bool(ours.steered) or any(touched[shown]["touched"] for shown in (ours.parent, *ours.context))
        return self.same(f"manual-influence mark of node {number}", hand, row["touched"]) and all(agreed)

    def _rules(self, number: int, *, by_hand: bool) -> None:
        """A kernel of a person's own had no prompt; every other prompt has what seed and frozen rules give it."""
        frozen = FrozenRules() if by_hand else self.record.frozen
        ours = [(rule.version, arm) for rule, arm in frozen.arms(seed=self.record.run.seed, number=number)]
        self.report.rules += bool(ours)
        self.same(f"rules of node {number}", ours, self.record.arms.get(number, []))

    def _within_budget(self) -> None:
        """The steps of an import are those it recorded: what was withdrawn there stands beside them."""
        state = self.state
        if not self.imported:
            self.same("steps within the budget", len(state.live) - 1 <= state.budget, True)

    def _told(self, event: NodeCompleted) -> None:
        number = event.number
        row = self.state.rows[number]
        self.report.told += 1
        self.same(f"completion order of node {number}", self.state.told, row.told_order)
        self.same(f"reward of node {number}", row.paper_reward, event.reward)
        self.same(f"speedup of node {number}", row.speedup, event.speedup)
        self.same(f"verdict of node {number}", row.verdict, event.verdict)

    def _ended(self, event: RunEnded) -> None:
        self.same("completed nodes at the end", self.state.told, event.told)
        self.same("best node at the end", self.state.best, event.best)
        self.same("nodes in flight at the end", self.state.in_flight, 0)
        if event.state == Run.State.FINISHED and event.by_steps:
            self.same("completed nodes of a finished search", self.state.told, self.state.budget)

    def _end(self) -> None:
        run, state, rows = self.record.run, self.state, self.record.rows
        self.same("events counted by the run", self.report.events, run.event_seq)
        self.same("best node announced", state.best, self.said_best)
        self.same("budget of the run", state.budget, run.steps)
        self.same("steering in force", state.steering.effects == self.record.steering.effects, True)
        tree = tree_of(rows, state.params)
        ours, stored = _statistics(state.tree), _statistics(tree)
        for number in sorted(ours.keys() | stored.keys()):
            self.same(f"visits, pending, total, best, depth of node {number}", ours.get(number), stored.get(number))
        if not run.ended:
            rng, other = (node_rng(run.seed, len(rows)) for _ in range(2))
            following = decide(tree, state.params, other, self.record.steering)
            self.same("next decision", decide(state.tree, state.params, rng, state.steering).why, following.why)


def _one_mark(event: KernelMarked, following: Event) -> bool:
    """Whether both tell one mark on a kernel that the search has twice: what is the best is so after the last."""
    return isinstance(following, KernelMarked) and replace(event, number=following.number) == following


def _statistics(tree: Tree) -> dict[int, tuple[Any, ...]]:
    return {
        number: (branch.visits, branch.pending, branch.total, branch.best, branch.depth)
        for number, branch in tree.branches.items()
    }


def _plain(value: Any) -> Any:
    """As the database gives it back: tuples as lists."""
    return json.loads(json.dumps(value)) if isinstance(value, dict | list | tuple) else value


@dataclass(frozen=True)
class ReplayReport:
    """`parents` and `contexts` count the steps that came out as recorded; `first_miss` is the first wrong parent as
    (step, ours, recorded)."""

    steps: int
    parents: int
    contexts: int
    first_miss: tuple[int, int, int] | None = None


def replay_recording(recording: Recording, params: SearchParams) -> ReplayReport:
    """Before each recorded step select a parent from the tree so far, compare, then follow the recording."""
    tree, parents, contexts = Tree(log=params.log), 0, 0
    first_miss: tuple[int, int, int] | None = None
    for step in recording.steps:
        selected = POLICIES[params.policy](tree, params, tree.root, Random(0)).branch.number
        if selected == step.parent:
            parents += 1
        elif first_miss is None:
            first_miss = (step.number, selected, step.parent)
        contexts += _context_agrees(tree, step, params)
        tree.reserve(step.number, step.parent, step.kind)
        worth = reward(loads=step.loads, correct=step.correct, speedup=step.speedup)
        tree.tell(step.number, worth, speedup=(step.speedup or 0.0) if step.correct else None, written=bool(step.code))
    return ReplayReport(len(recording.steps), parents, contexts, first_miss)


def _context_agrees(tree: Tree, step: RecordedStep, params: SearchParams) -> bool:
    """The same kernels in the same order; of a pool that was too large, some subset of the right size, in any order."""
    parent = tree[step.parent]
    if step.kind != LARGE:
        return small_window(parent, params) == step.context
    unbounded = SearchParams(pool_size=50)
    pool = large_pool(tree, parent, unbounded, Random(0))
    if len(pool) <= params.pool_size:
        return pool == step.context
    return len(step.context) == len(set(step.context) & set(pool)) == params.pool_size
