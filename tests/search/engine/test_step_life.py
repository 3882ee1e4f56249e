"""A step from reservation to verdict, and the run around it."""

from __future__ import annotations

import dataclasses

import pytest

from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.values import Audit, JudgeError
from search.engine.leases import MAX_RETRIES
from search.proposers.protocol import Call, ProposerError, Reply
from search.records.models import Node, Proposal, Run, RunEvent
from search.runs.services import run_resume
from tests.search.fakes import FakeBench, ScriptedProposer, kernel, passed, wrong
from tests.search.makers import Worker, kinds, make_run, told

pytestmark = pytest.mark.django_db


def fault(message: str, permanent: bool):
    def answer(task):
        raise ProposerError(message, permanent=permanent, calls=(Call(prompt="p", error=message),))

    return answer


def test_a_run_tells_exactly_its_budget_and_finishes():
    run = Worker().run(make_run(steps=5))
    assert run.state == Run.State.FINISHED
    assert len(told(run)) == 5
    assert kinds(run)[0] == "run.started"
    assert kinds(run)[-1] == "run.ended"
    assert run.nodes.exclude(state=Node.State.COMPLETED).count() == 0


def test_a_step_writes_its_events_in_order():
    run = Worker().run(make_run(steps=1))
    step = ["node.reserved", "node.proposed", "node.judging", "node.told", "node.best"]
    assert kinds(run) == ["run.started", *step, "run.ended"]
    payload = RunEvent.objects.get(run=run, kind="node.told").payload
    assert {"number", "verdict", "stage", "reason", "reward", "speedup", "low", "high", "n", "basis"} <= set(payload)
    assert payload["reused"] is False
    assert payload["source_hash"] == run.nodes.get(number=1).source_hash


def test_the_proposer_is_told_what_was_decided():
    worker = Worker()
    run = worker.run(make_run(steps=8))
    for task, node in zip(worker.proposer.tasks, told(run), strict=True):
        assert (task.number, task.kind) == (node.number, node.kind)
        assert [kernel.number for kernel in task.context_kernels] == node.context
        if task.kind == "small":
            assert task.base == task.context_kernels[-1].source == node.parent.source
    assert len({task.seed for task in worker.proposer.tasks}) == 8


def test_the_same_seed_gives_the_same_tree_and_another_seed_another():
    def shape(seed):
        return [(n.parent.number, n.kind, n.source_hash) for n in told(Worker().run(make_run(steps=12, seed=seed)))]

    assert shape(3) == shape(3)
    assert shape(3) != shape(4)


def test_each_node_keeps_why_it_was_chosen():
    nodes = told(Worker().run(make_run(steps=6)))
    assert len(nodes) == 6
    for node in nodes:
        assert node.why["policy"] == "uct"
        assert node.why["levels"][-1]["node"] == node.parent.number


def test_the_best_event_follows_only_a_faster_kernel():
    bench = FakeBench({0: passed(2.0), 1: passed(1.5), 2: wrong(), 3: passed(3.0), 4: passed(3.0)})
    run = Worker(bench=bench).run(make_run(steps=5))
    best = [event.payload["number"] for event in RunEvent.objects.filter(run=run, kind="node.best").order_by("seq")]
    assert best == [1, 4]


def test_what_failed_or_was_not_audited_is_never_announced_as_the_best():
    unaudited = dataclasses.replace(passed(9.0), audit=Audit.NONE)
    run = Worker(bench=FakeBench({0: wrong(), 1: unaudited, 2: passed(2.0)})).run(make_run(steps=3))
    best = [event.payload["number"] for event in RunEvent.objects.filter(run=run, kind="node.best")]
    assert best == [run.nodes.get(evaluation__speedup=2.0).number]


def test_a_reply_without_code_ends_the_node_with_its_reason_and_the_run_goes_on():
    reply = Reply(reason="proposal.no_code", message="There was no code block.", calls=(Call(reply="sorry\x00"),))
    worker = Worker(ScriptedProposer({2: lambda task: reply}))
    run = worker.run(make_run(steps=4))
    node = run.nodes.get(number=2)
    assert (node.state, node.reason, node.evaluation) == (Node.State.COMPLETED, "proposal.no_code", None)
    assert RunEvent.objects.get(run=run, kind="node.told", payload__number=2).payload["reward"] == 0
    assert len(worker.bench.jobs) == 3
    assert run.state == Run.State.FINISHED
    assert Proposal.objects.get(node=node).reply == "sorry\ufffd"


def test_an_unchanged_kernel_is_not_evaluated_again():
    def echo(task):
        return Reply(source=f"# only a comment\n{task.base}") if task.base else kernel(task)

    worker = Worker(ScriptedProposer(dict.fromkeys(range(2, 9), echo)))
    run = worker.run(make_run(steps=8, params={"p_large": 0.0}))
    small = [node for node in told(run) if node.kind == "small"]
    assert small
    assert {node.reason for node in small} == {"proposal.unchanged"}
    assert len(worker.bench.jobs) == 8 - len(small)


def test_an_equal_candidate_takes_the_known_verdict_without_device_time():
    same = lambda task: Reply(source="class ModelNew: pass\n")  # noqa: E731
    worker = Worker(ScriptedProposer({1: same, 2: same}))
    run = worker.run(make_run(steps=2, params={"policy": "independent"}))
    first, second = told(run)
    assert len(worker.bench.jobs) == 1
    assert (first.reused, second.reused) == (False, True)
    assert first.evaluation == second.evaluation


def test_a_passing_fault_of_the_proposer_is_recorded_and_tried_again():
    answers = iter([fault("no route", permanent=False), fault("busy", permanent=False), kernel])
    worker = Worker(ScriptedProposer({1: lambda task: next(answers)(task)}))
    run = worker.run(make_run(steps=1))
    retries = [e.payload for e in RunEvent.objects.filter(run=run, kind="proposer.retry").order_by("seq")]
    assert [(r["number"], r["attempt"], r["message"]) for r in retries] == [(1, 1, "no route"), (1, 2, "busy")]
    assert retries[1]["wait_s"] > retries[0]["wait_s"]
    assert [follow_up.delay_s for follow_up in worker.done if follow_up.delay_s] == [
        retry["wait_s"] for retry in retries
    ]
    assert run.nodes.get(number=1).proposals.count() == 3
    assert run.state == Run.State.FINISHED


def test_a_proposer_that_keeps_failing_pauses_the_run_and_gives_the_step_back():
    broken = ScriptedProposer({1: fault("endpoint down", permanent=False)})
    run = Worker(broken).run(make_run(steps=2))
    assert (run.state, len(broken.tasks)) == (Run.State.PAUSED, MAX_RETRIES)
    assert "endpoint down" in run.stop_reason
    assert run.nodes.get(number=1).state == Node.State.CANCELLED
    run = Worker().run(run_resume(run=run, user=None))
    assert (run.state, run.stop_reason) == (Run.State.FINISHED, "")
    assert [node.number for node in told(run)] == [2, 3]


def test_a_permanent_fault_fails_the_run_with_its_message():
    run = Worker(ScriptedProposer({2: fault("the key was refused", permanent=True)})).run(make_run(steps=5))
    assert (run.state, run.stop_reason) == (Run.State.FAILED, "the key was refused")
    assert len(told(run)) == 1
    assert not run.nodes.filter(state__in=Node.IN_FLIGHT).exists()
    assert kinds(run)[-1] == "run.ended"


def test_a_fault_of_the_judge_ends_as_lost_and_the_run_goes_on():
    class Broken(FakeBench):
        def facts(self):
            Device.objects.update(faults=0)  # others are judged meanwhile: the device itself is sound
            raise JudgeError("no zygote")

    run = Worker(bench=Broken()).run(make_run(steps=2))
    assert [node.reason for node in told(run)] == ["lost.attempts"] * 2
    assert Evaluation.objects.count() == 0
    verdicts = [e.payload["verdict"] for e in RunEvent.objects.filter(run=run, kind="node.told")]
    assert verdicts == ["lost", "lost"]


def test_several_steps_in_flight_never_pass_the_budget():
    run = make_run(steps=7, concurrency=3)
    worker = Worker()
    first = worker.do(worker_hop := _advance(run))
    assert [follow_up.task for follow_up in first] == ["propose"] * 3
    assert worker.do(worker_hop) == []
    worker.work(first)
    run.refresh_from_db()
    assert (run.state, len(told(run))) == (Run.State.FINISHED, 7)


def _advance(run):
    from search.records.queue import FollowUp

    return FollowUp("advance", run.pk)
