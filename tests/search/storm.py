"""A run in a storm: tasks delivered in any order, lost, expired, withdrawn, and people steering all the while."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.db import transaction
from hypothesis import strategies as st

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from judge.values import Outcome
from search.engine.completion import node_cancel, run_locked
from search.records.log import steering_of, uses_in
from search.records.models import Node, Run, RunEvent
from search.records.queue import FollowUp
from search.runs.services import run_pause, run_resume, run_stop
from search.steering.many import ACTS as MANY
from search.steering.many import NodeFilter, batch_of
from search.steering.run_actions import advance
from search.steering.snapshot import Snapshot
from tests.search.fakes import FakeBench, passed, wrong
from tests.search.makers import Worker, old_budget_add
from tests.search.steered import (
    run_budget_add,
    run_budget_take,
    steer_boost,
    steer_bulk,
    steer_force,
    steer_inject,
    steer_note,
    steer_params,
    steer_pin,
    steer_prune,
    steer_restore,
    steer_undo,
)

HAND = "class ModelNew:\n    number = {}\n"
PARAMS = ({"w": 0.7}, {"policy": "greedy"}, {"policy": "uct", "p_large": 0.6}, {"pool_extra_max": 2})
PARAMS += ({"alpha": 1.0}, {"reward": "log"}, {"policy": "map_elites"})

WORK = [*["follow_up"] * 12, "lose", "expire", "withdraw", "pause", "resume"]
ACTS = ["pin", "pin", "withdraw", "prune", "restore", "boost", "force", "force_at", "inject", "undo"]
ACTS += ["note", "params", "budget", "budget_undo", "old_budget", "bulk", "bulk"]
gusts = st.lists(
    st.tuples(st.sampled_from(WORK) | st.sampled_from(ACTS), st.integers(0, 30), st.integers(0, 30)),
    min_size=30,
    max_size=80,
)


class Bench(FakeBench):
    """Every third kernel is wrong; others pass at a speedup that depends on the source alone."""

    def evaluate(self, job: Any, *, progress: Any = None) -> Outcome:
        worth = sum(job.candidate.encode()) % 97
        return wrong() if worth % 3 == 0 else passed(0.5 + worth / 20)


class Storm:
    """`refused` counts the acts that were refused."""

    def __init__(self, run: Run) -> None:
        self.run, self.worker = run, Worker(bench=Bench())
        self.follow_ups: list[FollowUp] = [FollowUp("advance", run.pk)]
        self.refused = 0

    def blow(self, gust: tuple[str, int, int]) -> None:
        """One thing happens; `a` and `b` choose whom it befalls."""
        what, a, b = gust
        if what == "follow_up":
            for place in range(1 + b % 6):
                self._deliver(a + place)
        elif what == "lose" and self.follow_ups:
            self.follow_ups.pop(a % len(self.follow_ups))
        elif what == "expire":
            self.follow_ups += self.worker.later()
        elif what == "withdraw":
            self._withdraw(a)
        elif what in self.acts:
            try:
                self.follow_ups += self.acts[what](a, b) or []
            except ActionRefused:
                self.refused += 1

    def _deliver(self, place: int) -> None:
        if self.follow_ups:
            self.follow_ups += self.worker.do(self.follow_ups.pop(place % len(self.follow_ups)))

    def _withdraw(self, place: int) -> None:
        """What a failing proposer leads to."""
        with transaction.atomic():
            run = run_locked(self.run.pk)
            nodes = list(Node.objects.filter(run=run, state__in=Node.IN_FLIGHT).order_by("number"))
            nodes = [node for node in nodes if uses_in(node.steered)] or nodes  # what takes most to get right
            if run and nodes:
                node_cancel(run=run, node=nodes[place % len(nodes)], why="The proposer failed.")

    @property
    def acts(self) -> dict[str, Callable[[int, int], Any]]:
        run = {"run": self.run, "user": None}
        return {
            "pause": lambda a, b: run_pause(**run) and [],
            "resume": lambda a, b: run_resume(**run) and [FollowUp("advance", self.run.pk)],
            "pin": lambda a, b: steer_pin(**run, number=self._some_node(a), quota=1 + b % 5),
            "prune": lambda a, b: steer_prune(**run, number=self._some_node(a)),
            "restore": lambda a, b: steer_restore(**run, number=self._some_pruned(a)),
            "boost": lambda a, b: steer_boost(**run, number=self._some_node(a), boost=b / 10 - 1),
            "force": lambda a, b: steer_force(**run, kind="small" if b % 2 else "large"),
            "force_at": lambda a, b: steer_force(**run, kind="small" if b % 2 else "large", number=self._some_node(a)),
            "note": lambda a, b: steer_note(**run, number=self._some_node(a), text=f"try {b}"),
            "params": lambda a, b: steer_params(**run, changes=PARAMS[a % len(PARAMS)]),
            "budget": lambda a, b: advance(run_budget_add(**run, delta={"steps": 1 + a % 3})),
            "budget_undo": lambda a, b: run_budget_take(**run, action_id=self._some_budget(a)),
            "old_budget": lambda a, b: old_budget_add(**run, steps=1 + a % 3),
            "inject": lambda a, b: steer_inject(**run, number=self._some_node(a), source=HAND.format(a)),
            "bulk": self._bulk,
            "undo": lambda a, b: steer_undo(**run, seq=self._some_act(a)),
        }

    def _bulk(self, a: int, b: int) -> Any:
        act, run = MANY[a % len(MANY)], Run.objects.get(pk=self.run.pk)
        chosen = NodeFilter(kind="small") if b % 2 else NodeFilter(states=("wrong", "slower"))
        ready = len(batch_of(Snapshot(run), act, chosen).ready)
        return steer_bulk(run=run, act=act, chosen=chosen, expected=ready, quota=1, boost=b / 10 - 1, user=None)

    def _some_node(self, place: int) -> int:
        return place % self.run.nodes.count()

    def _some_pruned(self, place: int) -> int:
        pruned = sorted(steering_of(self.run.pk).pruned)
        return pruned[place % len(pruned)] if pruned else 0

    def _some_budget(self, place: int) -> int:
        acts = AuditEntry.objects.filter(verb="run.budget", object_id=str(self.run.pk)).values_list("pk", flat=True)
        return acts[place % len(acts)] if acts else 0

    def _some_act(self, place: int) -> int:
        acts = RunEvent.objects.filter(run=self.run, kind__startswith="steer.").values_list("seq", flat=True)
        return acts[place % len(acts)] if acts else 0

    def stopped(self, *, drain: bool) -> Run:
        """Stop it in the middle and let what is still on its way arrive."""
        with suppress(ActionRefused):
            run_stop(run=self.run, user=None, drain=drain)
        self.worker.work(self.follow_ups, limit=100_000)
        self.worker.work(self.worker.later())
        self.run.refresh_from_db()
        return self.run

    def calm(self) -> Run:
        """Let everything that is left come to its end."""
        self.run.refresh_from_db()
        if self.run.state == Run.State.PAUSED:
            run_resume(run=self.run, user=None)
        for _ in range(40):
            self.worker.work([*self.follow_ups, FollowUp("advance", self.run.pk)], limit=100_000)
            self.run.refresh_from_db()
            if self.run.ended:
                break
            self.follow_ups = self.worker.later()
        return self.run
