"""In whatever order tasks arrive, doubled, lost or cut off by a death: the books hold at every event and end exact."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from search.ledger.books import ledger_of, limits_of
from search.ledger.limits import kept, limit_amounts, step_hold
from search.records.models import Node, Run
from search.records.queue import FollowUp
from search.runs.services import run_pause, run_resume
from tests.search.fakes import FakeBench, Killed
from tests.search.ledger.test_budgets import billed, limited
from tests.search.makers import Worker, kinds, told

pytestmark = pytest.mark.django_db
LIMITS = ({}, {"evaluations": 4}, {"tokens": 31}, {"device_s": 7.0})


class Mortal(FakeBench):
    """Dies in one of five evaluations."""

    rng = Random(0)

    def evaluate(self, job, *, progress=None):
        if self.rng.random() < 0.2:
            raise Killed
        return super().evaluate(job, progress=progress)


def deliver(worker: Worker, follow_up: FollowUp) -> list[FollowUp]:
    try:
        return worker.do(follow_up)
    except Killed:
        return []


@given(st.integers(0, 1 << 30), st.sampled_from(LIMITS))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_under_any_interleaving_no_limit_is_passed_and_the_end_is_exact(seed, limits):
    rng, run = Random(seed), limited(steps=6, concurrency=3, **limits)
    worker, follow_ups = Worker(billed(), Mortal()), [FollowUp("advance", run.pk)]
    worker.bench.rng = rng
    for _ in range(400):
        if rng.random() < 0.05:
            interrupt(run)
        if not follow_ups or rng.random() < 0.05:
            follow_ups += worker.later(rng.choice([5, 40, 100]))
        if follow_ups:
            follow_up = follow_ups[rng.randrange(len(follow_ups))]
            if rng.random() < 0.85:
                follow_ups.remove(follow_up)  # else it is delivered once more, later
            follow_ups += deliver(worker, follow_up)
        assert kept(limits_of(run), ledger_of(run.pk))
        if Run.objects.get(pk=run.pk).ended:
            break
    check_end(Run.objects.get(pk=run.pk), worker, follow_ups)


def interrupt(run: Run) -> None:
    """Pause and go on again: what is in flight ends meanwhile."""
    if not Run.objects.get(pk=run.pk).ended:
        run_pause(run=run, user=None)
        run_resume(run=run, user=None)


def check_end(run: Run, worker: Worker, late: list[FollowUp]) -> None:
    """Ended by its limits with nothing left over, and what still arrives changes nothing."""
    ledger, limits, log = ledger_of(run.pk), limits_of(run), kinds(run)
    hold = step_hold(limits, ledger)
    assert run.state == Run.State.FINISHED
    assert any(getattr(ledger.spent, k) + getattr(hold, k) > limit for k, limit in limit_amounts(limits).items())
    assert not run.nodes.filter(state__in=Node.IN_FLIGHT).exists()
    assert ledger.spent.steps == len(told(run)) == log.count("node.told")
    assert [deliver(worker, follow_up) for follow_up in late] == [[] for _ in late]
    assert kinds(run) == log
