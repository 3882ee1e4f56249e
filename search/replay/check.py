"""Is a run what its log says? Every decision is made again and every number counted again, then compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from django.db import transaction

from memory.prompting.assignment import FrozenRules
from memory.prompting.queries import arms_of, frozen_of
from search.algorithm.decide import Decision, decide, node_rng
from search.algorithm.params import SearchParams
from search.algorithm.steering import Steering
from search.algorithm.tree import Tree
from search.records.facts import NodeRow, node_rows, tree_of
from search.records.models import Node, Proposal, Run
from search.records.steering_log import steering_of
from search.replay.rebuild import LogBroken, Logged, Rebuilt, log_of

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
    """`decisions` of which `agreed` came out as recorded, `parents` the right parents among them; `by_hand` nodes were
    decided by people; `rules` prompts had rules dealt again. `first` is the first difference of any kind, None when the
    run is what its log says."""

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

    def _event(self, event: Logged, following: Logged | None) -> None:
        self.report.events += 1
        self.seq = event.seq
        self.same("number of the event", self.report.events, event.seq)
        payload = event.payload
        if event.kind == "node.reserved":
            self._reserved(payload)
        self.state.apply(event)
        if event.kind == "node.reserved":
            self._within_budget()
        elif event.kind == "node.told":
            self._told(payload)
        elif event.kind == "node.best":
            self.said_best = payload["number"]
            self.same("best node", self.state.best, payload["number"])
        elif event.kind == "kernel.marked":
            self.said_best = payload["best"]
            if following is None or not _one_mark(event, following):
                self.same("best node", self.state.best, payload["best"])
        elif event.kind == "run.ended":
            self._ended(payload)
        elif event.kind.startswith("steer.") and "of" not in payload:  # those are parts of an act on many nodes
            self.report.acts += 1

    def _reserved(self, payload: Mapping[str, Any]) -> None:
        number = payload["number"]
        row = self.record.decided.get(number)
        if row is None:
            raise LogBroken(f"node {number} is reserved and has no row")
        if payload.get("by_hand"):
            self.report.by_hand += 1
        else:
            self._decide(number, row)
        self._rules(number, by_hand=bool(payload.get("by_hand")))
        said = (payload["parent"], payload["kind"], payload["context"])
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

    def _told(self, payload: Mapping[str, Any]) -> None:
        number = payload["number"]
        row = self.state.rows[number]
        self.report.told += 1
        self.same(f"completion order of node {number}", self.state.told, row.told_order)
        self.same(f"reward of node {number}", row.reward, payload["reward"])
        self.same(f"speedup of node {number}", row.speedup, payload["speedup"])
        self.same(f"verdict of node {number}", row.verdict, payload["verdict"])

    def _ended(self, payload: Mapping[str, Any]) -> None:
        self.same("completed nodes at the end", self.state.told, payload["told"])
        self.same("best node at the end", self.state.best, payload["best"])
        self.same("nodes in flight at the end", self.state.in_flight, 0)
        if payload["state"] == Run.State.FINISHED and payload.get("limit", "steps") == "steps":
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


def _one_mark(event: Logged, following: Logged) -> bool:
    """Whether both tell one mark on a kernel that the search has twice: what is the best is so after the last."""
    same = {**event.payload, "number": following.payload.get("number")} == following.payload
    return same and following.kind == event.kind


def _statistics(tree: Tree) -> dict[int, tuple[Any, ...]]:
    return {
        number: (branch.visits, branch.pending, branch.total, branch.best, branch.depth)
        for number, branch in tree.branches.items()
    }


def _plain(value: Any) -> Any:
    """As the database gives it back: tuples as lists."""
    return json.loads(json.dumps(value)) if isinstance(value, dict | list | tuple) else value
