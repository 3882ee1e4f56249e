"""Adapt runs: tasks in order, both searches of each, refusals made good, budgets kept, transfer."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from judge.values import AdmissionReport
from memory.adapt.models import AdaptRun
from memory.failures.models import Failure
from memory.prompting.choices import MemoryChoice
from memory.rules.models import Rule, RuleVersion, Sighting
from search.batches.adapt_results import adapt_rows, effect_read, learned_by, task_rows
from search.batches.adapts import ADAPTS, AdaptPlan, transfer_start
from search.batches.budgets import spent_of
from search.engine.leases import reap
from search.records.models import Run
from search.runs.services import run_resume, run_stop
from tests.memory.prompt_rows import make_rule, see
from tests.search.adapt_rows import AdaptWorker, ScriptedWriter, assert_exact, make_adapt, make_samples, searches
from tests.search.campaign_rows import AdmittingBench
from tests.search.fakes import wrong
from tests.search.makers import make_device, make_problem, make_run, told
from tests.search.steered import run_budget_add, steer_inject

pytestmark = pytest.mark.django_db


def test_every_task_is_searched_with_memory_and_without_from_the_same_seed():
    adapt = AdaptWorker().complete(make_adapt())
    assert_exact(adapt)
    for place, run, control in searches(adapt):
        assert run.origin == control.origin == Run.Origin.ADAPT
        assert (run.memory.uses, run.memory.learns, run.memory.trust) == (True, True, "auto")
        assert (control.memory.uses, control.memory.learns) == (False, False)
        assert run.problem.origin == Problem.Origin.SYNTHETIC and f"task {place}" in run.title
    assert adapt.proposer_options == {"dialect": "mixed"}


def test_tasks_start_in_their_order_and_none_before_the_last_has_ended():
    class Watching(AdaptWorker):
        def do(self, follow_up):
            follow_ups = super().do(follow_up)
            assert Run.objects.exclude(state__in=Run.ENDED).count() <= 2
            return follow_ups

    adapt = Watching().complete(make_adapt(tasks=3))
    runs = [run.pk for _, run, _ in searches(adapt)]
    assert runs == sorted(runs) and len(runs) == 3


def test_a_refused_task_is_kept_with_its_reason_and_another_is_composed():
    bench = AdmittingBench()
    bench.refuse = ("task2",)
    adapt = AdaptWorker(bench, ScriptedWriter(missing=(1,))).complete(make_adapt())
    states = list(adapt.entries.order_by("place").values_list("place", "state"))
    assert states == [(1, "refused"), (2, "refused"), (3, "started"), (4, "started")]
    reasons = list(adapt.entries.filter(state="refused").values_list("reason", flat=True))
    assert reasons == ["No chain of these operators makes a problem.", "problem.crashed: forward() fails."]
    progress = adapt_rows([adapt])[0].progress
    assert (progress.generated, progress.validated, progress.attempted, progress.ended) == (3, 2, 2, 2)
    assert dict(progress.refusals) == {"problem.crashed": 1, "other": 1}


def test_when_nothing_is_admitted_it_gives_up_and_says_so():
    adapt = AdaptWorker(write=ScriptedWriter(missing=tuple(range(1, 99)))).complete(make_adapt(tasks=1))
    assert adapt.entries.count() == 13 and "0 could be attempted" in adapt.stop_reason


GRAPH = {"nodes": [{"name": "a", "op": "aten.relu.default", "args": [], "kwargs": {}}]}
SLOW = [{"name": "reference", "state": "ok", "wall_ms": 9e4}]
FLAW = {"code": "problem.constant", "message": "It is constant.", "fix": "f"}
REPORTS = {
    1: {"state": "degenerate", "reason": "problem.constant", "message": "It is constant.", "flaws": [FLAW]},
    2: {"state": "admitted", "graph": GRAPH},
    3: {"state": "admitted", "graph": GRAPH},
    4: {"state": "admitted", "stages": SLOW},
}


def test_degenerate_slow_and_equal_tasks_are_refused():
    class Telling(AdmittingBench):
        def admit(self, problem, **kw):
            place = int(problem.source.split("# task")[1].split()[0])
            return AdmissionReport.from_json(REPORTS.get(place, {"state": "admitted"}))

    adapt = AdaptWorker(Telling()).complete(make_adapt(tasks=2))
    reasons = dict(adapt.entries.exclude(reason="").values_list("place", "reason"))
    assert reasons == {
        1: "problem.constant: It is constant.",
        3: "problem.duplicate: task 2 has the same operators in the same wiring.",
        4: "problem.slow: one run of the reference takes 90.0 s; 3 s are the limit.",
    }
    assert [place for place, _, _ in searches(adapt)] == [2, 5]


def test_called_twice_changes_nothing():
    adapt = make_adapt()
    asked = ADAPTS.advance(adapt.pk)
    assert [follow_up.task for follow_up in asked] == ["compose_task"] * 2
    assert ADAPTS.advance(adapt.pk) == []
    write = ScriptedWriter()
    for follow_up in [*asked, *asked]:
        ADAPTS.compose(follow_up.target, write=write)
    assert write.asked == [1, 2] and Problem.objects.filter(origin="synthetic").count() == 2
    bench = AdmittingBench()
    for follow_up in [*asked, *asked]:
        ADAPTS.admit(follow_up.target, bench_for=bench)
    assert bench.admitted == 2 and Run.objects.count() == 2


class Unlearning(AdaptWorker):
    """Nobody learns where it works."""

    def do(self, follow_up):
        return [] if follow_up.task == "learn" else super().do(follow_up)


def test_the_next_task_waits_until_the_failures_before_it_have_taught():
    adapt, worker = make_adapt(), Unlearning()
    worker.bench.outcomes = {0: wrong()}
    for _ in range(4):
        worker.work(worker.beat())
    assert len(searches(adapt)) == 1
    assert all(run.ended for run in Run.objects.all())
    Failure.objects.update(lesson="nothing")
    worker.work(worker.beat())
    assert len(searches(adapt)) == 2


def test_a_lesson_nobody_comes_for_holds_nothing_up_for_ever():
    adapt, worker = make_adapt(), Unlearning()
    worker.bench.outcomes = {0: wrong()}
    assert_exact(worker.complete(adapt))


def test_a_budget_of_device_time_ends_it_cleanly():
    worker = AdaptWorker()
    adapt = make_adapt(tasks=5, limits={"device_s": 250})
    evaluate = worker.bench.evaluate
    worker.bench.evaluate = lambda job, **kw: dataclasses.replace(evaluate(job, **kw), wall_ms=4000.0)
    adapt = worker.complete(adapt)
    assert adapt.stop_reason == "The limit of device seconds leaves no room for another preflight."
    assert 0 < len(searches(adapt)) < 5 and spent_of(adapt).device_s <= 250
    assert all(run.ended for _, run, _ in searches(adapt))
    skipped = set(adapt.entries.filter(state="skipped").values_list("reason", flat=True))
    assert skipped <= {adapt.stop_reason}


def started_with(limits) -> Run:
    """The first search of an adapt run with these limits, told nothing yet."""
    adapt, worker = make_adapt(tasks=2, steps=5, control_steps=0, limits=limits), AdaptWorker()
    for follow_up in ADAPTS.advance(adapt.pk):
        worker.do(follow_up)
    for task in adapt.entries.all():
        ADAPTS.admit(task.pk, bench_for=worker.bench)
    return searches(adapt)[0][1]


def test_a_search_with_a_share_of_the_limits_gets_no_more_and_does_not_come_back():
    """What an ended search left goes to the next ones: both would use it."""
    run = started_with({"device_s": 200})
    with pytest.raises(ActionRefused, match="sets the limits of this search"):
        run_budget_add(run=run, delta={"device_s": 1000}, user=None)
    with pytest.raises(ActionRefused, match="sets the limits of this search"):
        run_budget_add(run=run, delta={"steps": 3}, user=None)
    run_stop(run=run, user=None)
    with pytest.raises(ActionRefused, match="reassigned the limits of this search"):
        run_resume(run=run, user=None)


def test_without_limits_a_stopped_search_may_go_on():
    run = started_with({})
    run_stop(run=run, user=None)
    assert run_resume(run=run, user=None).state == Run.State.RUNNING


def test_the_reaper_leaves_searches_alone_that_a_command_drives():
    adapt, worker = make_adapt(), AdaptWorker()
    for follow_up in ADAPTS.advance(adapt.pk):
        ADAPTS.compose(follow_up.target, write=worker.write)
        ADAPTS.admit(follow_up.target, bench_for=worker.bench)
    other = make_run()
    started = {run.pk for _, *runs in searches(adapt) for run in runs}
    assert {follow_up.target for follow_up in reap()} == started | {other.pk}
    AdaptRun.objects.update(lease_until=timezone.now() + timedelta(seconds=60))
    assert {follow_up.target for follow_up in reap()} == {other.pk}


def test_a_budget_of_time_ends_it_too():
    adapt = make_adapt(limits={"wall_s": 60})
    assert ADAPTS.advance(adapt.pk, now=timezone.now() + timedelta(seconds=61)) == []
    adapt.refresh_from_db()
    assert (adapt.state, adapt.stop_reason) == (
        AdaptRun.State.FINISHED,
        "The limit of wall-clock seconds leaves no room for another task.",
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tasks": 0}, "Tasks must be from 1"),
        ({"steps": 0}, "Steps of each task"),
        ({"control_steps": 9}, "Steps without memory must be from 0 to 1"),
        ({"proposer": "manual"}, "cannot serve"),
        ({"composer": "nobody"}, "There is no composer"),
        ({"composer": "model"}, "LLM_"),
        ({"limits": {"device_s": 5}}, "below what is held"),
        ({"limits": {"device_s": 100}}, r"\(100\) is below what is held for the preflight of one task \(120\)"),
        ({"limits": {"tokens": 5000}}, "uses no tokens"),
        ({"limits": {"steps": 5}}, "no limit 'steps'"),
        ({"params": {"w": -1}}, "w must be from 0"),
        ({"seed": -1}, "The seed must be"),
    ],
)
def test_what_cannot_start_is_told_and_nothing_is_written(changes, said):
    with pytest.raises(ActionRefused, match=said):
        make_adapt(**changes)
    assert not AdaptRun.objects.exists()


def test_composing_needs_the_shipped_samples():
    Problem.objects.all().delete()
    from search.batches.composers import check_composer

    with pytest.raises(ActionRefused, match="seed_samples"):
        check_composer("builtin")


def test_the_effect_is_read_from_first_attempts_of_both_searches():
    adapt = AdaptWorker().complete(make_adapt())
    first = searches(adapt)[0][2].nodes.select_related("evaluation").get(number=1)
    other = first.evaluation
    other.pk, other.verdict, other.speedup = None, "wrong", None
    other.save()
    first.evaluation = other
    first.save()
    rows = task_rows(adapt)
    assert [row.outcome.control.first for row in rows if row.task.run_id] == [False, True]
    effect = effect_read(adapt, rows)
    assert (effect.first.n, effect.first.only_with, effect.verdict) == (2, 1, "no effect shown")


def test_attempts_at_which_nobody_tried_or_that_stayed_open_leave_their_pair_out():
    adapt = AdaptWorker().complete(make_adapt(tasks=2))
    (_, _, control), (_, run, _) = searches(adapt)
    control.nodes.filter(number=1).update(evaluation=None, reason="proposal.no_graph")
    known = run.nodes.get(number=1).evaluation
    doubted = Evaluation.objects.create(
        problem=known.problem, device=known.device, candidate_hash="x", verdict="suspect", stage="timing"
    )
    run.nodes.filter(number=1).update(evaluation=doubted)
    effect = effect_read(adapt, task_rows(adapt))
    assert (effect.first.n, effect.left_out) == (0, 2)


def test_a_kernel_by_hand_is_no_attempt_of_the_arm_it_was_put_into():
    adapt, worker = make_adapt(tasks=1, steps=2), AdaptWorker()
    for follow_up in ADAPTS.advance(adapt.pk):
        worker.do(follow_up)
    for task in adapt.entries.all():
        ADAPTS.admit(task.pk, bench_for=worker.bench)
    run = searches(adapt)[0][1]
    worker.work(steer_inject(run=run, source="class ModelNew: ...\n", user=None))
    row = task_rows(worker.complete(adapt))[0]
    assert row.outcome.shown.attempts[0] is None and row.outcome.control.first is True


def rule_seen_in(adapt: AdaptRun, text: str) -> Rule:
    """A rule that a failure of this adapt run supports."""
    rule = Rule.objects.create(origin="pattern", state="approved")
    rule.current = RuleVersion.objects.create(rule=rule, number=1, text=text, words=text)
    rule.save()
    failure = Failure.objects.filter(run__adapt_task__adapt=adapt).first()
    if failure is not None:
        Sighting.objects.create(rule=rule, failure=failure)
    return rule


def test_what_was_learned_is_counted():
    worker = AdaptWorker()
    worker.bench.outcomes = {0: wrong()}
    adapt = worker.complete(make_adapt(tasks=1))
    Failure.objects.update(lesson="rule")
    rule_seen_in(adapt, "Mask loads.")
    found = learned_by(adapt)
    assert (found.failures, found.asked, found.new, found.repeated, found.merged, found.rules) == (1, 1, 1, 0, 0, 1)


def test_a_transfer_searches_given_problems_with_the_rules_of_that_run_only():
    worker = AdaptWorker()
    worker.bench.outcomes = {0: wrong()}
    adapt = worker.complete(make_adapt(tasks=1))
    mine = make_rule("You must mask loads.", support=3)
    see(mine, searches(adapt)[0][1], 3)
    for number in range(3):  # of elsewhere and better supported: together they fill every prompt
        make_rule(f"You must do {number} of these: " + "word " * 60, support=5)
    narrow = MemoryChoice(trust="auto", budget_tokens=150)
    plan = AdaptPlan(device=make_device(), steps=2, control_steps=2, seed=1, memory=narrow)
    real = [make_problem("real1"), make_problem("real2")]
    moved = worker.complete(transfer_start(learned_by=adapt, problems=real, plan=plan))
    found = searches(moved)
    assert [run.problem.slug for _, run, _ in found] == ["real1", "real2"]
    for _, run, control in found:
        assert [frozen.version.rule_id for frozen in run.memory.rules.all()] == [mine.pk]
        assert (run.memory.learns, control.memory.uses, len(told(control))) == (False, False, 2)
    with pytest.raises(ActionRefused, match="No problem"):
        transfer_start(learned_by=adapt, problems=[], plan=plan)
    with pytest.raises(ActionRefused, match="cannot use composed problems"):
        transfer_start(learned_by=adapt, problems=list(Problem.objects.filter(origin="synthetic")), plan=plan)
    with pytest.raises(ActionRefused, match="does not learn new rules"):
        transfer_start(learned_by=moved, problems=real, plan=plan)


def test_what_an_earlier_run_saw_on_the_same_task_is_no_evidence_for_it():
    """The same seed gives the same task, first attempt and mistake: a rule seen there alone knows the answer."""
    worker = AdaptWorker()
    worker.bench.outcomes = {0: wrong()}
    first = worker.complete(make_adapt(tasks=1))
    rule = make_rule("You must mask loads.", support=0)
    see(rule, searches(first)[0][1], 0, searches(first)[0][1].problem)
    once = MemoryChoice(learns=True, trust="auto", threshold=1)
    run = searches(worker.complete(make_adapt(tasks=1, memory=once)))[0][1]
    assert run.problem_id == searches(first)[0][1].problem_id and not run.memory.rules.exists()
    see(rule, searches(first)[0][1], 1)
    run = searches(worker.complete(make_adapt(tasks=1, memory=once)))[0][1]
    assert run.memory.rules.count() == 1


def test_the_same_seed_gives_the_same_tasks_and_searches_again():
    first = AdaptWorker().complete(make_adapt())
    second = AdaptWorker().complete(make_adapt())
    make_samples()
    pairs = [[(run.problem_id, run.seed) for _, run, _ in searches(one)] for one in (first, second)]
    assert pairs[0] == pairs[1]
    sources = [[[node.source for node in told(run)] for _, run, _ in searches(one)] for one in (first, second)]
    assert sources[0] == sources[1]
