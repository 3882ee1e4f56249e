"""A run as of any place in its log: tree, steering, parameters and budget, rebuilt event by event from log and rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from django.db import transaction

from search.algorithm.params import SearchParams
from search.algorithm.steering import Steering
from search.algorithm.tree import Tree
from search.records.events import (
    BudgetAdded,
    BudgetTaken,
    Event,
    KernelInjected,
    KernelMarked,
    NodeCancelled,
    NodeCompleted,
    NodeReserved,
    ParamsChanged,
    RunStarted,
    Steered,
    SteeringUndone,
    StepsAdded,
    event_read,
)
from search.records.facts import NodeRow, node_rows, row_tell, tree_of
from search.records.models import Node, Run, RunEvent
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
