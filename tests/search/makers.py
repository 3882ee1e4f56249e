"""Rows for tests, and a worker that carries follow-up tasks without a queue."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from adaexplore_site.actions.action import Call
from judge.devices.models import Device
from judge.problems.models import Problem
from judge.values import text_hash
from memory.distil.distillers import TableDistiller
from memory.distil.services import failure_learn
from search.engine.leases import reap
from search.engine.steps import step_judge, step_propose, step_reserve
from search.records.models import Node, Run, RunEvent
from search.records.queue import FollowUp
from search.runs.services import run_start
from search.steering.run_actions import advance
from search.steering.snapshot import Change, Snapshot, steer
from tests.search.fakes import FakeBench, ScriptedProposer


def make_device() -> Device:
    device, _ = Device.objects.get_or_create(
        name="interpreter", defaults={"kind": Device.Kind.INTERPRETER, "title": "Interpreter", "arch": "sm_90"}
    )
    return device


def make_problem(name: str = "relu") -> Problem:
    source = f"# {name}\nclass Model: ...\n"
    problem, _ = Problem.objects.get_or_create(
        source_hash=text_hash(source),
        defaults={
            "slug": name,
            "title": name,
            "source": source,
            "origin": Problem.Origin.UPLOAD,
            "state": Problem.State.ADMITTED,
            "admission": {"interpreter": {"state": "admitted", "case": None, "graph": {"nodes": []}}},
        },
    )
    return problem


def make_run(**changes: Any) -> Run:
    """A started run of 5 steps, seed 1."""
    given = {"problem": make_problem(), "device": make_device(), "proposer": "builtin", "steps": 5, "seed": 1}
    return run_start(**(given | changes))


def old_budget_add(*, run: Run, steps: int, user: Any = None) -> list[FollowUp]:
    """Add steps as the first logs have it, an act of steering: nothing writes it any more, all of it still counts."""

    def change(now: Snapshot) -> Change:
        before = now.run.steps
        now.steps_add(steps)
        return Change({"steps": steps, "total": now.run.steps}, {"steps": before}, lambda: advance(now.run))

    return steer(run=run, verb="steer.budget", call=Call(user), change=change)


class Worker:
    """Carries follow-up tasks as the queues would. `clock` can be moved; delays are not waited for."""

    def __init__(self, proposer: ScriptedProposer | None = None, bench: FakeBench | None = None) -> None:
        self.proposer, self.bench = proposer or ScriptedProposer(), bench or FakeBench()
        self.now = timezone.now()
        self.done: list[FollowUp] = []

    def clock(self) -> datetime:
        return self.now

    def do(self, follow_up: FollowUp) -> list[FollowUp]:
        """One delivery of one follow-up task."""
        self.done.append(follow_up)
        if follow_up.task == "advance":
            return step_reserve(run_id=follow_up.target, clock=self.clock)
        if follow_up.task == "propose":
            return step_propose(node_id=follow_up.target, proposer_for=self.proposer, clock=self.clock)
        if follow_up.task == "learn":
            failure_learn(failure_id=follow_up.target, distiller=TableDistiller())
            return []
        return step_judge(node_id=follow_up.target, bench_for=self.bench, clock=self.clock)

    def work(self, follow_ups: Iterable[FollowUp], limit: int = 1000) -> None:
        """Deliver these follow-up tasks and all that follow."""
        waiting = deque(follow_ups)
        while waiting:
            assert len(self.done) < limit, "the follow_ups never end"
            waiting.extend(self.do(waiting.popleft()))

    def run(self, run: Run) -> Run:
        """Work the run from where it stands; returns it fresh."""
        self.work([FollowUp("advance", run.pk)])
        run.refresh_from_db()
        return run

    def later(self, seconds: float = 120) -> list[FollowUp]:
        """Let time pass; what the reaper then wants done."""
        self.now += timedelta(seconds=seconds)
        return reap(now=self.now)


def kinds(run: Run) -> list[str]:
    """The run's event kinds in order; asserts that the log has no gaps."""
    events = list(RunEvent.objects.filter(run=run).order_by("seq"))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    return [event.kind for event in events]


def told(run: Run) -> list[Node]:
    """The told nodes without the root, in told order; asserts that orders and numbers are used once."""
    nodes = list(run.nodes.filter(state=Node.State.COMPLETED).exclude(kind="root").order_by("told_order"))
    assert [node.told_order for node in nodes] == list(range(1, len(nodes) + 1))
    assert len({node.number for node in nodes}) == len(nodes)
    return nodes
