"""A search that begins with a kernel of another one: its verdict, its parameters, provenance both ways."""

from __future__ import annotations

import pytest

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from search.interchange.imports import search_import
from search.ledger.books import limits_of
from search.ledger.limits import RunLimits
from search.records.models import Node, Run
from search.records.queue import FollowUp
from search.replay.check import replay_run
from tests.search.fakes import FakeBench, passed
from tests.search.makers import Worker, kinds, make_device, make_problem, make_run, told
from tests.search.recorded import packed, step
from tests.search.steered import run_branch, steer_params

pytestmark = pytest.mark.django_db


@pytest.fixture
def run() -> Run:
    return Worker(bench=FakeBench({1: passed(3.0)})).run(make_run(steps=4))


def test_the_kernel_is_the_first_told_node_with_the_verdict_it_has(run):
    origin = run.nodes.get(number=2)
    new, follow_ups = run_branch(node=origin, steps=5, user=None)
    (first,) = told(new)
    assert (first.source, first.evaluation, first.reused, first.touched) == (
        origin.source,
        origin.evaluation,
        True,
        True,
    )
    worker = Worker()
    worker.work(follow_ups)
    new.refresh_from_db()
    assert (new.state, len(told(new)), len(worker.bench.jobs)) == (Run.State.FINISHED, 6, 5)
    assert replay_run(new).first is None


def test_a_branch_keeps_the_hard_limits_and_leaves_the_goals(run):
    limits = {"evaluations": 9, "device_s": 900.0, "wall_s": 600.0, "stale_steps": 2, "target_speedup": 1.5}
    Run.objects.filter(pk=run.pk).update(limits=RunLimits(steps=4, **limits).to_json())
    new, _ = run_branch(node=run.nodes.get(number=2), steps=5, user=None)
    kept = limits_of(new)
    assert (kept.steps, kept.evaluations, kept.device_s, kept.wall_s) == (6, 9, 900.0, 600.0)
    assert (kept.stale_steps, kept.target_speedup) == (None, None) and new.deadline_at is not None


def test_each_search_says_where_the_other_is(run):
    origin = run.nodes.get(number=2)
    new, _ = run_branch(node=origin, steps=5, user=None)
    new.refresh_from_db()
    assert new.branched_from == origin and list(origin.branches.all()) == [new]
    assert kinds(run)[-1] == "run.branched"
    assert "from node 2" in new.title
    assert replay_run(run).first is None  # a line after its end changes nothing in it


def test_parameters_changed_on_the_way_are_taken_along():
    run = make_run(steps=4)
    worker = Worker()
    (propose,) = worker.do(FollowUp("advance", run.pk))
    worker.do(worker.do(propose)[0])
    steer_params(run=run, changes={"w": 0.7}, user=None)
    new, _ = run_branch(node=run.nodes.get(number=1), steps=2, user=None)
    assert new.params["w"] == 0.7


def test_on_another_device_the_kernel_is_judged_first(run):
    other = Device.objects.create(name="second", kind=Device.Kind.INTERPRETER, title="Second", arch="sm_80")
    problem = make_problem()
    problem.admission = {**problem.admission, "second": problem.admission["interpreter"]}
    problem.save()
    new, (follow_up,) = run_branch(node=run.nodes.get(number=2), steps=2, user=None, device=other)
    assert (follow_up.task, new.nodes.get(number=1).state) == ("judge_node", Node.State.JUDGING)
    Worker().work([follow_up])
    new.refresh_from_db()
    assert new.state == Run.State.FINISHED and told(new)[0].evaluation.device == other


def test_an_imported_kernel_starts_a_search_here():
    imported = search_import(data=packed([step(1, 0)]), name="kept.json")
    problem = imported.problem
    problem.admission, problem.state = make_problem().admission, "admitted"
    problem.save()
    node = imported.nodes.get(number=1)
    new, _ = run_branch(node=node, steps=2, user=None, device=make_device(), proposer="builtin")
    assert new.nodes.get(number=1).source == node.source


def test_the_same_key_gives_the_first_branch_again(run):
    first, _ = run_branch(node=run.nodes.get(number=2), steps=5, user=None, key="k")
    again, follow_ups = run_branch(node=run.nodes.get(number=2), steps=5, user=None, key="k")
    assert (again, follow_ups, Run.objects.count()) == (first, [], 2)
    assert AuditEntry.objects.filter(verb="run.branch").count() == 1


def test_the_start_and_a_node_without_a_kernel_cannot_be_branched_from(run):
    with pytest.raises(ActionRefused, match="no kernel to branch from"):
        run_branch(node=run.nodes.get(number=0), steps=5, user=None)
    run.nodes.filter(number=3).update(source="")
    with pytest.raises(ActionRefused, match="Node 3 has no kernel"):
        run_branch(node=run.nodes.get(number=3), steps=5, user=None)
    assert Run.objects.count() == 1


@pytest.mark.parametrize("steps", [0, -1])
def test_a_branch_without_a_step_of_its_own_is_refused(run, steps):
    with pytest.raises(ActionRefused, match="at least one step of its own"):
        run_branch(node=run.nodes.get(number=2), steps=steps, user=None)
    assert Run.objects.count() == 1
