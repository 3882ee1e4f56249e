"""Equal kernels never occupy a device at the same time: one is judged, the others wait for its verdict."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from judge.evaluations.models import Evaluation
from search.engine.leases import RETRY, node_claim
from search.engine.steps import DUPLICATE_WAIT_S
from search.proposers.protocol import Reply
from search.records.models import Node, Run
from search.records.queue import FollowUp
from tests.search.engine.test_concurrency import together
from tests.search.fakes import FakeBench, Killed, ScriptedProposer
from tests.search.makers import Worker, make_problem, make_run, told

EQUAL = ("class ModelNew: pass", "# the same\nclass ModelNew: pass  # here")


def equal_pair(**changes: object) -> tuple[Worker, list[FollowUp]]:
    """Two searches on one problem, each with the same kernel ready for the judge."""
    worker, judges = Worker(), []
    for place in range(2):
        worker.proposer = ScriptedProposer({1: lambda task, k=place: Reply(source=EQUAL[k])})
        run = make_run(steps=1, seed=place, **(changes if place else {}))
        judges += worker.do(worker.do(FollowUp("advance", run.pk))[0])
    return worker, judges


@pytest.mark.django_db
def test_while_one_is_judged_the_other_comes_back_later_and_takes_its_verdict():
    worker, (first, second) = equal_pair()

    class Meanwhile(FakeBench):
        def evaluate(self, job, *, progress=None):
            waits.extend(worker.do(second))
            return super().evaluate(job, progress=progress)

    waits: list[FollowUp] = []
    worker.bench = Meanwhile()
    worker.work([first])
    assert waits == [FollowUp("judge_node", second.target, queue=second.queue, delay_s=DUPLICATE_WAIT_S)]
    worker.work(waits)
    nodes = [Node.objects.get(pk=follow_up.target) for follow_up in (first, second)]
    assert [node.reused for node in nodes] == [False, True]
    assert Evaluation.objects.count() == len(worker.bench.jobs) == 1


@pytest.mark.django_db
def test_waiting_uses_up_no_attempt():
    worker, (first, second) = equal_pair()
    assert node_claim(node_id=first.target, state=Node.State.JUDGING, owner="busy", now=worker.now)
    for _ in range(10):
        assert worker.do(second)
    node = Node.objects.get(pk=second.target)
    assert (node.attempts, node.lease_owner) == (0, RETRY)


@pytest.mark.django_db
def test_when_the_first_dies_the_second_goes_on():
    worker, (first, second) = equal_pair()

    class Deadly(FakeBench):
        def evaluate(self, job, *, progress=None):
            worker.bench = FakeBench()
            raise Killed

    worker.bench = Deadly()
    with pytest.raises(Killed):
        worker.do(first)
    assert worker.do(second)[0].delay_s == DUPLICATE_WAIT_S
    for _ in range(3):
        worker.work(worker.later())
    assert all(run.state == Run.State.FINISHED for run in Run.objects.all())
    assert Evaluation.objects.count() == 1


@pytest.mark.django_db
def test_equal_kernels_for_other_problems_do_not_wait_for_each_other():
    worker, (first, second) = equal_pair(problem=make_problem("another"))
    assert node_claim(node_id=first.target, state=Node.State.JUDGING, owner="busy", now=worker.now)
    worker.work([second])
    assert Node.objects.get(pk=second.target).state == Node.State.COMPLETED


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_the_same_moment_never_judge_an_equal_kernel_side_by_side():
    _, judges = equal_pair()
    inside, most = 0, 0
    lock = threading.Lock()

    class Counting(FakeBench):
        def evaluate(self, job, *, progress=None):
            nonlocal inside, most
            with lock:
                inside += 1
                most = max(most, inside)
            threading.Event().wait(0.2)
            with lock:
                inside -= 1
            return super().evaluate(job, progress=progress)

    bench = Counting()

    def work(place: int) -> None:
        follow_ups = [judges[place]]
        while follow_ups:
            follow_ups = [
                follow_up for follow_up in Worker(bench=bench).do(follow_ups[0]) if follow_up.task == "judge_node"
            ]
            threading.Event().wait(0.05)
        connection.close()

    together(2, work)
    assert (most, len(bench.jobs), Evaluation.objects.count()) == (1, 1, 1)
    assert [len(told(run)) for run in Run.objects.all()] == [1, 1]
