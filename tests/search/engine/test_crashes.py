"""Whatever is killed, delivered twice or lost on the way: exactly the budget is told, nothing is doubled."""

from __future__ import annotations

import pytest

from judge.evaluations.models import Evaluation
from search.engine.leases import MAX_ATTEMPTS, QUEUE_S
from search.records.models import Node, Run, RunEvent
from search.records.queue import FollowUp
from tests.search.fakes import FakeBench, Killed, ScriptedProposer, kernel
from tests.search.makers import Worker, kinds, make_run, told

pytestmark = pytest.mark.django_db

STEPS = 2


def finished(run: Run) -> bool:
    run.refresh_from_db()
    return run.state == Run.State.FINISHED and len(told(run)) == STEPS and bool(kinds(run))


def resume_until_done(worker: Worker, run: Run) -> None:
    """Let the reaper bring the run to its end."""
    for _ in range(12):
        run.refresh_from_db()
        if run.ended:
            return
        worker.work(worker.later())


def test_every_hop_delivered_twice_changes_nothing():
    class Twice(Worker):
        def do(self, follow_up: FollowUp) -> list[FollowUp]:
            first = super().do(follow_up)
            assert super().do(follow_up) == []
            return first

    worker, run = Twice(), make_run(steps=STEPS)
    worker.run(run)
    assert finished(run)
    assert (len(worker.proposer.tasks), len(worker.bench.jobs)) == (STEPS, STEPS)


def test_hops_delivered_again_after_the_end_change_nothing():
    worker, run = Worker(), make_run(steps=STEPS)
    worker.run(run)
    before = kinds(run)
    for follow_up in list(worker.done):
        assert worker.do(follow_up) == []
    assert kinds(run) == before


@pytest.mark.parametrize("lost", range(6))
def test_a_message_lost_after_any_hop_is_made_good_by_the_reaper(lost):
    class Forgetful(Worker):
        def do(self, follow_up: FollowUp) -> list[FollowUp]:
            follow = super().do(follow_up)
            return [] if len(self.done) == lost + 1 else follow

    worker, run = Forgetful(), make_run(steps=STEPS)
    worker.run(run)
    resume_until_done(worker, run)
    assert finished(run)
    assert (len(worker.proposer.tasks), len(worker.bench.jobs)) == (STEPS, STEPS)


@pytest.mark.parametrize("number", [1, 2])
def test_a_worker_killed_while_proposing_loses_nothing(number):
    def die(task):
        proposer.answers[number] = kernel
        raise Killed

    proposer = ScriptedProposer({number: die})
    worker, run = Worker(proposer), make_run(steps=STEPS)
    with pytest.raises(Killed):
        worker.run(run)
    resume_until_done(worker, run)
    assert finished(run)
    assert kinds(run).count("lease.expired") == 1
    assert run.nodes.get(number=number).attempts == 1  # of judging; counted afresh for each stage


@pytest.mark.parametrize("place", [0, 1])
def test_a_worker_killed_while_judging_loses_nothing(place):
    class Deadly(FakeBench):
        def evaluate(self, job, *, progress=None):
            if len(self.jobs) == place:
                self.jobs.append(job)
                raise Killed
            return super().evaluate(job, progress=progress)

    worker, run = Worker(bench=Deadly()), make_run(steps=STEPS)
    with pytest.raises(Killed):
        worker.run(run)
    resume_until_done(worker, run)
    assert finished(run)
    assert len(worker.bench.jobs) == STEPS + 1


def test_a_worker_killed_between_verdict_and_tell_does_not_judge_again():
    worker, run = Worker(), make_run(steps=1)
    (propose,) = worker.do(FollowUp("advance", run.pk))
    (judge,) = worker.do(propose)
    ticks = iter([worker.now])
    worker_clock = worker.clock

    def dying_clock():
        for now in ticks:
            return now
        raise Killed

    worker.clock = dying_clock
    with pytest.raises(Killed):
        worker.do(judge)
    assert Evaluation.objects.count() == 1
    worker.clock = worker_clock
    resume_until_done(worker, run)
    (node,) = told(run)
    assert (len(worker.bench.jobs), node.reused, run.state) == (1, False, Run.State.FINISHED)


def test_a_kernel_that_kills_every_worker_is_given_up_and_the_run_goes_on():
    class Poison(FakeBench):
        def evaluate(self, job, *, progress=None):
            if "number = 1" in job.candidate:
                self.jobs.append(job)
                raise Killed
            return super().evaluate(job, progress=progress)

    worker, run = Worker(bench=Poison()), make_run(steps=2)
    follow_ups = [FollowUp("advance", run.pk)]
    for _ in range(MAX_ATTEMPTS):
        with pytest.raises(Killed):
            worker.work(follow_ups)
        follow_ups = worker.later()
    worker.work(follow_ups)
    run.refresh_from_db()
    node = run.nodes.get(number=1)
    assert (run.state, node.reason, node.state) == (Run.State.FINISHED, "lost.attempts", Node.State.COMPLETED)
    assert RunEvent.objects.get(run=run, kind="node.told", payload__number=1).payload["verdict"] == "lost"
    assert len(told(run)) == 2


def test_a_late_worker_whose_lease_has_passed_on_changes_nothing():
    worker, run = Worker(), make_run(steps=1)
    (propose,) = worker.do(FollowUp("advance", run.pk))

    def overtaken(task):
        worker.proposer.answers.clear()
        for follow_up in worker.later():
            worker.work([follow_up])
        return kernel(task)

    worker.proposer.answers[1] = overtaken
    assert worker.do(propose) == []
    (node,) = told(run)
    assert node.proposals.count() == 1
    assert kinds(run).count("node.proposed") == 1


def test_a_node_nobody_picked_up_is_sent_again_but_not_at_every_look():
    worker, run = Worker(), make_run(steps=1)
    (propose,) = worker.do(FollowUp("advance", run.pk))
    assert worker.later(QUEUE_S - 1) == []
    assert worker.later(2) == [propose]
    assert worker.later(5) == []
    assert "lease.expired" not in kinds(run)
    worker.work([propose])
    run.refresh_from_db()
    assert run.state == Run.State.FINISHED


def test_a_run_whose_first_message_was_lost_is_found():
    run = make_run(steps=STEPS)
    worker = Worker()
    assert worker.later(1) == [FollowUp("advance", run.pk)]
    resume_until_done(worker, run)
    assert finished(run)


def test_a_run_driven_by_a_command_is_taken_over_only_after_a_silence():
    run = make_run(steps=STEPS, origin=Run.Origin.COMMAND)
    worker = Worker()
    assert worker.later(5) == []
    assert worker.later(120) == [FollowUp("advance", run.pk)]


def test_a_paused_run_with_nothing_in_flight_is_left_alone():
    run = make_run()
    Run.objects.filter(pk=run.pk).update(state=Run.State.PAUSED)
    assert Worker().later() == []


def test_hops_for_rows_that_are_gone_return_quietly():
    worker = Worker()
    assert [worker.do(FollowUp(task, 10**9)) for task in ("advance", "propose", "judge_node")] == [[], [], []]
