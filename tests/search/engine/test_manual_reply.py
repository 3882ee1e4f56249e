"""The manual proposer: the prompt waits without a lease, a person's reply continues the node."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from search.engine.steps import reply_submit
from search.proposers import get as get_proposer
from search.records.facts import standing_of
from search.records.models import Node, Run
from search.records.queries import best_node
from search.records.queue import FollowUp
from search.replay.check import replay_run
from search.runs.services import run_stop
from tests.search.makers import Worker, kinds, make_run, told

pytestmark = pytest.mark.django_db

KERNEL = "```python\nimport torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n```\n"


@pytest.fixture
def waiting():
    """A worker whose run waits for its first reply, the run and the node."""
    worker, run = Worker(get_proposer("manual")), make_run(proposer="manual", steps=1)
    worker.proposer = lambda name: get_proposer(name)
    worker.run(run)
    return worker, run, run.nodes.get(number=1)


def test_the_prompt_waits_on_the_page_without_a_lease(waiting):
    worker, run, node = waiting
    assert (node.state, node.lease_until) == (Node.State.PROPOSING, None)
    assert "Model" in node.proposals.get().prompt
    assert kinds(run)[-1] == "node.waiting"
    assert worker.later(10_000) == []


def test_a_reply_continues_the_node_to_its_verdict(waiting):
    worker, run, node = waiting
    user = get_user_model().objects.create_user("ada")
    worker.work(reply_submit(node=node, text=KERNEL, user=user, key="r1"))
    (done,) = told(run)
    run.refresh_from_db()
    assert "class ModelNew" in done.source
    assert (done.evaluation.verdict, run.state) == ("pass", Run.State.FINISHED)
    assert AuditEntry.objects.get(verb="node.reply").actor == user


def test_a_kernel_written_by_a_person_is_marked_and_the_search_still_replays(waiting):
    worker, run, node = waiting
    worker.work(reply_submit(node=node, text=KERNEL, user=None, key="r1"))
    assert told(run)[0].touched and standing_of(run.pk, unassisted=True).leader is None
    assert best_node(run.pk).number == 1
    assert replay_run(run).equal, replay_run(run).first


def test_the_same_form_twice_is_one_reply(waiting):
    _, run, node = waiting
    first = reply_submit(node=node, text=KERNEL, user=None, key="r1")
    assert first == [FollowUp("judge_node", node.pk, queue="device.interpreter")]
    assert reply_submit(node=node, text=KERNEL, user=None, key="r1") == []
    assert kinds(run).count("node.proposed") == 1


def test_a_reply_without_a_kernel_is_handed_back_and_the_node_still_waits(waiting):
    _, run, node = waiting
    with pytest.raises(ActionRefused):
        reply_submit(node=node, text="I would rather not.", user=None, key="r1")
    node.refresh_from_db()
    assert node.state == Node.State.PROPOSING
    assert kinds(run)[-1] == "node.waiting"


def test_a_second_reply_to_a_node_is_refused(waiting):
    _, _, node = waiting
    reply_submit(node=node, text=KERNEL, user=None, key="r1")
    with pytest.raises(ActionRefused, match="no longer waits"):
        reply_submit(node=node, text=KERNEL, user=None, key="r2")
    assert AuditEntry.objects.filter(verb="node.reply").count() == 1


def test_stopping_withdraws_a_waiting_node(waiting):
    _, run, node = waiting
    assert run_stop(run=run, user=None).state == Run.State.STOPPED
    with pytest.raises(ActionRefused, match="no longer waits"):
        reply_submit(node=node, text=KERNEL, user=None)
