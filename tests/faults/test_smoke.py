"""The storm's own parts, without a storm: its stand-ins, its checks, and that the checks can fail."""

from __future__ import annotations

import pytest

from search.records.models import Node, Run, RunEvent
from search.records.queue import FollowUp
from tests.faults.checks import doubles, faults_of
from tests.faults.quick import QuickBench, QuickProposer
from tests.faults.searches import limits_give, limits_number
from tests.search.makers import Worker, make_run

OTHER = {"number": 10, "parent": 9, "kind": "large", "context": [7]}
pytestmark = pytest.mark.django_db


class Quick(Worker):
    """Carries follow-up tasks to the stand-ins; the reaper looks whenever nothing is left."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = QuickBench("interpreter")
        self.propose = QuickProposer()
        self.proposer = lambda name: self.propose  # type: ignore[assignment]

    def finish(self, run: Run) -> Run:
        bench = self.bench
        self.bench = lambda device: bench  # type: ignore[assignment]
        self.work([FollowUp("advance", run.pk)])
        for _ in range(20):
            self.work(self.later())
        run.refresh_from_db()
        return run


@pytest.fixture
def at_once(monkeypatch) -> None:
    """Replies and verdicts without a wait."""
    monkeypatch.setattr("tests.faults.quick.THINK_S", 0.0)
    monkeypatch.setattr("tests.faults.quick.JUDGE_S", 0.0)


@pytest.fixture
def run(at_once) -> Run:
    return make_run(steps=14, concurrency=8)


@pytest.mark.parametrize("kind", range(4))
def test_a_search_of_each_kind_passes_the_checks(at_once, kind):
    limits = limits_number(kind, 14)
    run = make_run(steps=limits.steps, concurrency=8, seed=2)
    limits_give(run, limits)
    assert faults_of(Quick().finish(run)) == doubles() == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda run: RunEvent.objects.filter(run=run, seq=5).delete(),
        lambda run: run.nodes.filter(number=3).update(lease_owner="somebody"),
        lambda run: run.nodes.filter(number=14).update(state=Node.State.CANCELLED, told_order=None),
        lambda run: run.nodes.filter(number=4).update(told_order=99),
        lambda run: run.events.filter(kind="node.reserved", payload__number=10).update(payload=OTHER),
        lambda run: Run.objects.filter(pk=run.pk).update(steps=15),
    ],
)
def test_the_checks_notice_what_is_wrong(run, spoil):
    spoil(Quick().finish(run))
    assert faults_of(Run.objects.get(pk=run.pk))
