"""A person stops an evaluation: its worker gives up, the device is free, and the search makes another step instead."""

from __future__ import annotations

from datetime import timedelta

import pytest

from adaexplore_site.core.models import AuditEntry
from judge.bench.processes.stopping import look
from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from search.engine.steps import step_propose, step_reserve
from search.ledger.books import ledger_of
from search.ledger.models import Spending
from search.records.models import Node, Run
from tests.pages import client_of
from tests.search.fakes import FakeBench, ScriptedProposer
from tests.search.fleet.test_revoking import on_device
from tests.search.makers import Worker, kinds, make_run, told

pytestmark = pytest.mark.django_db


def address(run: Run, number: int, what: str = "stop") -> str:
    return f"/s/{run.pk}/n/{number}/{what}"


class Interrupted(FakeBench):
    """At its first evaluation the page at `what` is posted; then it looks, as the real one does all the time."""

    what = "stop"

    def evaluate(self, job, *, progress=None):
        if not self.jobs:
            self.jobs.append(job)
            run = Run.objects.get()
            operator = client_of("operator")
            assert address(run, 1) in operator.get(f"/s/{run.pk}/n/1/").content.decode()
            assert operator.post(address(run, 1, self.what), {"sure": "1"}).status_code == 302
            look()
            pytest.fail("its processes work on")
        return super().evaluate(job, progress=progress)


def test_it_asks_first_and_withdraws_the_node():
    run, node = on_device(Worker())
    operator = client_of("operator")
    assert "Stop the evaluation of node 1?" in operator.post(address(run, 1)).content.decode()
    for _ in range(2):
        assert operator.post(address(run, 1), {"key": "k", "sure": "1"}).status_code == 302
    node.refresh_from_db()
    assert (node.state, node.message) == ("cancelled", "Its evaluation was stopped by some-operator.")
    assert AuditEntry.objects.filter(verb="node.stop").count() == 1 and "node.cancelled" in kinds(run)
    assert "Evaluation of node 1 stopped" in operator.get("/activity/").content.decode()
    assert operator.post(address(run, 1), {"sure": "1"}).status_code == 409


def test_one_that_runs_ends_without_a_verdict_and_its_step_is_made_anew():
    worker = Worker(bench=Interrupted())
    run = worker.run(make_run(steps=2))
    worker.work(worker.later(0))
    run.refresh_from_db()
    assert run.state == "finished" and [node.number for node in told(run)] == [2, 3]
    assert Evaluation.objects.count() == 2 and Device.objects.get().faults == 0


def test_the_device_time_of_a_stopped_evaluation_is_booked():
    class Slow(Interrupted):
        def evaluate(self, job, *, progress=None):
            if not self.jobs:
                worker.now += timedelta(seconds=7)
            return super().evaluate(job, progress=progress)

    worker = Worker(bench=Slow())
    run = worker.run(make_run(steps=1))
    assert sum(Spending.objects.filter(run=run).values_list("device_ms", flat=True)) == 7000.0
    assert ledger_of(run.pk).spent.device_ms == 7000, "and it counts for the search's limit"
    assert not Evaluation.objects.exists()


def test_one_that_waits_is_never_judged():
    worker = Worker()
    run = make_run(steps=1)
    (follow_up,) = step_reserve(run_id=run.pk)
    (judging,) = step_propose(node_id=follow_up.target, proposer_for=ScriptedProposer())
    client_of("operator").post(address(run, 1), {"sure": "1"})
    assert worker.do(judging) == [] and worker.bench.jobs == []
    worker.work(worker.later(0))
    assert [node.number for node in told(run)] == [2]


def test_whatever_takes_a_node_from_its_worker_ends_the_evaluation():
    """Queued again, it is judged once more; the first worker does not go on to its limit."""
    bench = Interrupted()
    bench.what = "revoke"
    worker = Worker(bench=bench)
    run = worker.run(make_run(steps=1))
    worker.work(worker.later())
    assert [node.number for node in told(run)] == [1] and len(bench.jobs) == 2


def test_what_is_not_judged_is_not_stopped():
    run = Worker().run(make_run(steps=1))
    answer = client_of("operator").post(address(run, 1), {"sure": "1"})
    assert answer.status_code == 409 and "neither waits for a device" in answer.content.decode()
    assert Node.objects.get(number=1).state == "told"
