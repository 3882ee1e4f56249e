"""An evaluation that is taken back is judged once more, once; its late worker tells nothing."""

from __future__ import annotations

import pytest

from adaexplore_site.core.models import AuditEntry
from search.engine.leases import node_claim
from search.engine.steps import step_complete, step_propose, step_reserve
from search.records.models import Node, Run
from tests.pages import client_of
from tests.search.fakes import ScriptedProposer
from tests.search.makers import Worker, kinds, make_run, told

pytestmark = pytest.mark.django_db


def on_device(worker: Worker) -> tuple[Run, Node]:
    """A search of one step whose kernel a worker called hung has."""
    run = make_run(steps=1)
    (follow_up,) = step_reserve(run_id=run.pk)
    step_propose(node_id=follow_up.target, proposer_for=ScriptedProposer())
    assert node_claim(node_id=follow_up.target, state=Node.State.JUDGING, owner="hung", now=worker.now)
    return run, Node.objects.get(pk=follow_up.target)


def test_it_asks_first_and_then_queues_the_node_anew(monkeypatch):
    run, node = on_device(Worker())
    sent = []
    monkeypatch.setattr("search.fleet.actions.send", sent.extend)
    operator, address = client_of("operator"), f"/s/{run.pk}/n/{node.number}/revoke"
    assert "Requeue node 1 of interpreter?" in operator.post(address, {"key": "k"}).content.decode()
    node.refresh_from_db()
    assert node.lease_owner == "hung"
    for _ in range(2):
        assert operator.post(address, {"key": "k", "sure": "1"}).status_code == 302
    node.refresh_from_db()
    assert (node.lease_owner, node.attempts) == ("queue", 0) and [follow_up.task for follow_up in sent] == [
        "judge_node"
    ]
    assert AuditEntry.objects.filter(verb="node.revoke").count() == 1 and "lease.expired" in kinds(run)
    assert "was taken from its device" in operator.get("/activity/").content.decode()


def test_the_late_worker_tells_nothing_and_the_next_one_does():
    worker = Worker()
    run, node = on_device(worker)
    client_of("operator").post(f"/s/{run.pk}/n/{node.number}/revoke", {"sure": "1"})
    run = worker.run(run)
    worker.work(worker.later())
    (done,) = told(run)
    assert step_complete(node=node, owner="hung", evaluation_id=done.evaluation_id) == []
    assert len(told(run)) == 1 and Run.objects.get().state == "finished"


def test_what_is_on_no_device_is_not_taken_back():
    run = Worker().run(make_run(steps=1))
    answer = client_of("operator").post(f"/s/{run.pk}/n/1/revoke", {"sure": "1"})
    assert answer.status_code == 409 and "not on a device any more" in answer.content.decode()
