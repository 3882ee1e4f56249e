"""Start, pause, resume and stop, each with its audit row; a repeated submit is one act."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from search.records.models import Node, Run
from search.records.queue import FollowUp
from search.replay.check import replay_run
from search.runs.services import run_pause, run_resume, run_start, run_stop
from tests.search.fakes import FakeBench
from tests.search.makers import Worker, kinds, make_device, make_problem, make_run, told
from tests.search.steered import run_concurrency

pytestmark = pytest.mark.django_db


@pytest.fixture
def user():
    return get_user_model().objects.create_user("operator-one")


def test_a_started_run_has_a_told_root_that_counts_in_no_budget():
    run = make_run(steps=4)
    root = run.nodes.get()
    assert (root.number, root.kind, root.state, root.told_order) == (0, "root", "told", 0)
    assert kinds(run) == ["run.started"]


def test_starting_twice_with_one_key_gives_the_first_run(user):
    first = make_run(key="form-1", user=user)
    assert make_run(key="form-1", user=user) == first
    assert Run.objects.count() == 1
    assert AuditEntry.objects.get().actor == user


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"steps": 0}, "budget must be from 1"),
        ({"steps": 10**6}, "budget must be from 1"),
        ({"concurrency": 0}, "in flight must be from 1"),
        ({"proposer": "oracle"}, "no proposer 'oracle'"),
        ({"proposer": "recorded"}, "recording"),
        ({"params": {"w": "much"}}, "w must be a number"),
        ({"params": {"speed": 1}}, "Unknown search parameter speed"),
    ],
)
def test_what_cannot_start_is_refused_with_what_to_change(changes, words):
    with pytest.raises(ActionRefused, match=words):
        make_run(**changes)
    assert Run.objects.count() == 0


def test_a_problem_without_preflight_on_the_device_is_refused():
    problem = make_problem()
    problem.admission = {"interpreter": {"state": "running", "stages": []}}
    with pytest.raises(ActionRefused, match="preflight"):
        make_run(problem=problem)


def test_an_external_device_is_refused():
    device = Device.objects.create(name="external:x", kind=Device.Kind.EXTERNAL, title="x")
    with pytest.raises(ActionRefused, match="takes no new searches"):
        run_start(problem=make_problem(), device=device, proposer="builtin", steps=1)


def test_pausing_lets_the_step_in_flight_end_and_starts_no_other(user):
    worker, run = Worker(), make_run(steps=3)
    follow_ups = worker.do(FollowUp("advance", run.pk))
    run_pause(run=run, user=user)
    worker.work(follow_ups)
    run.refresh_from_db()
    assert (run.state, len(told(run))) == (Run.State.PAUSED, 1)
    run_resume(run=run, user=user)
    assert Worker().run(run).state == Run.State.FINISHED
    assert [action.verb for action in AuditEntry.objects.order_by("id")][1:] == ["run.pause", "run.resume"]


def test_a_run_paused_during_its_last_step_finishes_with_it(user):
    worker, run = Worker(), make_run(steps=1)
    follow_ups = worker.do(FollowUp("advance", run.pk))
    run_pause(run=run, user=user)
    worker.work(follow_ups)
    run.refresh_from_db()
    assert run.state == Run.State.FINISHED


def test_the_same_key_acts_once(user):
    run = make_run()
    run_pause(run=run, user=user, key="k1")
    run_resume(run=run, user=user, key="k2")
    run_pause(run=run, user=user, key="k1")
    run.refresh_from_db()
    assert run.state == Run.State.RUNNING
    assert kinds(run).count("run.paused") == 1


def test_a_key_used_for_another_act_is_refused(user):
    run = make_run(key="k")
    with pytest.raises(ActionRefused, match="Reload the page"):
        run_pause(run=run, user=user, key="k")


def test_pausing_a_paused_run_changes_nothing(user):
    run = make_run()
    run_pause(run=run, user=user)
    run_pause(run=run, user=user)
    assert kinds(run).count("run.paused") == 1


def test_stopping_withdraws_a_proposal_and_ends_at_once(user):
    worker, run = Worker(), make_run(steps=3)
    (propose,) = worker.do(FollowUp("advance", run.pk))
    stopped = run_stop(run=run, user=user)
    assert (stopped.state, stopped.stop_reason) == (Run.State.STOPPED, "Stopped by operator-one.")
    assert run.nodes.get(number=1).state == Node.State.CANCELLED
    assert worker.do(propose) == []
    assert kinds(run)[-3:] == ["run.stopping", "node.cancelled", "run.ended"]


def test_stopping_lets_the_kernel_on_the_device_be_judged_to_its_end(user):
    class Stopping(FakeBench):
        def evaluate(self, job, *, progress=None):
            assert run_stop(run=run, user=user).state == Run.State.STOPPING
            return super().evaluate(job, progress=progress)

    run = make_run(steps=3)
    run = Worker(bench=Stopping()).run(run)
    assert (run.state, len(told(run))) == (Run.State.STOPPED, 1)
    assert kinds(run)[-1] == "run.ended"


def test_a_draining_run_whose_worker_died_is_stopped_by_the_reaper(user):
    worker, run = Worker(), make_run(steps=3)
    (propose,) = worker.do(FollowUp("advance", run.pk))
    worker.do(propose)
    Node.objects.filter(run=run, number=1).update(lease_owner="dead worker", lease_until=worker.now)
    assert run_stop(run=run, user=user).state == Run.State.STOPPING
    assert worker.later() == []
    run.refresh_from_db()
    assert run.state == Run.State.STOPPED


@pytest.mark.parametrize("act", [run_pause, run_resume])
def test_an_ended_run_cannot_be_steered(act, user):
    run = Worker().run(make_run(steps=1))
    with pytest.raises(ActionRefused, match="already ended"):
        act(run=run, user=user)


def test_two_runs_on_one_problem_do_not_touch_each_other():
    first, second = make_run(steps=3, seed=1), make_run(steps=3, seed=2)
    worker = Worker()
    worker.work([FollowUp("advance", first.pk), FollowUp("advance", second.pk)])
    assert (len(told(first)), len(told(second))) == (3, 3)
    assert make_device().runs.count() == 2


def test_a_stop_is_taken_back_and_the_search_ends_at_its_budget(user):
    run = make_run(steps=3)
    run_stop(run=run, user=user)
    run.refresh_from_db()
    assert run.state == Run.State.STOPPED and run.ended_at is not None
    run_resume(run=run, user=user)
    run.refresh_from_db()
    assert (run.state, run.ended_at, run.stop_reason) == (Run.State.RUNNING, None, "")
    assert Worker().run(run).state == Run.State.FINISHED
    assert len(told(run)) == 3 and replay_run(run).equal


def test_a_finished_search_is_not_resumed_without_a_wider_budget(user):
    run = Worker().run(make_run(steps=1))
    with pytest.raises(ActionRefused, match="already ended"):
        run_resume(run=run, user=user)


def test_stopping_at_once_withdraws_what_is_on_the_device(user):
    worker, run = Worker(), make_run(steps=3)
    (judge,) = worker.do(*worker.do(FollowUp("advance", run.pk)))
    Node.objects.filter(pk=judge.target).update(lease_owner="some-worker")
    assert run_stop(run=run, user=user).state == Run.State.STOPPING
    assert run_stop(run=run, user=user, drain=False).state == Run.State.STOPPED
    assert run.nodes.get(number=1).state == Node.State.CANCELLED
    assert AuditEntry.objects.filter(verb="run.kill").count() == 1


def test_concurrency_changes_on_the_way_and_back(user):
    worker, run = Worker(), make_run(steps=9, concurrency=1)
    worker.do(FollowUp("advance", run.pk))
    run_concurrency(run=run, concurrency=4, user=user, key="k")
    run_concurrency(run=run, concurrency=4, user=user, key="k")
    worker.do(FollowUp("advance", run.pk))
    assert run.nodes.filter(state__in=Node.IN_FLIGHT).count() == 4
    with pytest.raises(ActionRefused, match="from 1 to"):
        run_concurrency(run=run, concurrency=0, user=user)
    assert kinds(run).count("run.concurrency") == 1
