"""Limits of a run at work: each ends the search by its name and numbers, none is passed, and budget can be added."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from search.engine.budgets import limits_keep
from search.ledger.books import ledger_of, limits_of
from search.ledger.limits import kept
from search.proposers.protocol import Call, ProposerError, Reply
from search.records.models import Node, Run
from search.records.queue import FollowUp
from search.replay.check import replay_run
from tests.search.fakes import FakeBench, Killed, ScriptedProposer, kernel, passed
from tests.search.makers import Worker, kinds, make_run, told
from tests.search.steered import run_budget_add, steer_inject

pytestmark = pytest.mark.django_db
BY_HAND = "class ModelNew:\n    by_hand = True\n"
STEP = {"step_tokens": 10, "step_usd": Decimal("0.02"), "step_device_s": 2.0}


def limited(*, steps: int = 20, concurrency: int = 4, **limits: object) -> Run:
    """A run with these limits, as a billed proposer would have it."""
    run = make_run(steps=steps, concurrency=concurrency, params={"policy": "independent"})
    limits_keep(run, replace(limits_of(run), **STEP, **limits))
    run.save()
    return run


def billed(price: str | None = "0.01", tokens: int = 7) -> ScriptedProposer:
    """A proposer whose every call uses these tokens at this price; None: nobody knows the price."""
    usd = None if price is None else Decimal(price)
    call = Call(model="some-model", tokens_in=tokens - 2, tokens_out=2, price_usd=usd)
    return ScriptedProposer({n: lambda task: replace(kernel(task), calls=(call,)) for n in range(1, 60)})


class SlowBench(FakeBench):
    """Every evaluation takes a second and a half of the device."""

    def evaluate(self, job, *, progress=None):
        return replace(super().evaluate(job, progress=progress), wall_ms=1500.0)


@pytest.mark.parametrize(
    ("limits", "count", "words"),
    [
        ({"evaluations": 6}, 6, "Evaluation limit reached: 6 of 6 spent."),
        ({"tokens": 45}, 6, "Token limit reached: 42 of 45 spent; one more step may need 10."),
        ({"usd": Decimal("0.08")}, 7, "Money limit reached: $0.07 of $0.08 spent; one more step may need $0.02."),
        ({"device_s": 10.0}, 6, "Device time limit reached: 9.0 s of 10.0 s spent; one more step may need 2.0 s."),
        ({"stale_steps": 5}, 6, "No improvement in the last 5 completed steps; the limit is 5."),
        ({"target_speedup": 3.0}, 1, "Target of 3.00× reached: 4.0× [3.6–4.4] MODELLED over eager."),
    ],
)
def test_each_limit_ends_the_search_and_says_the_numbers(limits, count, words):
    outcomes = {k: passed(4.0 if k == 0 else 2.0) for k in range(40)}
    run = Worker(billed(), SlowBench(outcomes)).run(limited(concurrency=1, **limits))
    assert (run.state, run.stop_reason, len(told(run))) == (Run.State.FINISHED, words, count)
    assert run.events.get(kind="run.ended").payload["limit"] == next(iter(limits))


@pytest.mark.parametrize("limits", [{"evaluations": 6}, {"tokens": 45}, {"usd": Decimal("0.08")}, {"device_s": 10.0}])
def test_with_many_steps_in_flight_no_limit_is_passed_at_any_event(limits):
    run = limited(concurrency=8, **limits)

    class Watched(Worker):
        def do(self, follow_up: FollowUp) -> list[FollowUp]:
            follow_ups = super().do(follow_up)
            assert kept(limits_of(run), ledger_of(run.pk))
            return follow_ups

    run = Watched(billed(), SlowBench()).run(run)
    assert run.state == Run.State.FINISHED and run.stop_reason
    assert ledger_of(run.pk).reserved.steps == 0


def test_a_reused_verdict_costs_no_evaluation():
    same = ScriptedProposer({n: lambda task: Reply(source="class ModelNew: pass") for n in range(1, 30)})
    run = Worker(same).run(limited(steps=8, evaluations=2))
    assert (len(told(run)), ledger_of(run.pk).spent.evaluations) == (8, 1)


def test_a_step_that_dies_or_is_sent_twice_is_paid_once():
    def die(task):
        proposer.answers[2] = billed().answers[2]
        raise Killed

    proposer = billed()
    proposer.answers[2] = die
    worker, run = Worker(proposer), limited(evaluations=5)
    with pytest.raises(Killed):
        worker.run(run)
    for _ in range(8):
        worker.work(worker.later())
    run.refresh_from_db()
    spent = ledger_of(run.pk).spent
    assert (run.state, len(told(run)), spent.evaluations, spent.tokens) == (Run.State.FINISHED, 5, 5, 35)


def test_withdrawing_a_step_gives_its_budget_back_but_not_what_its_calls_have_cost():
    def fail(task):
        calls = (replace(billed().answers[1](task).calls[0], error="cut off"),)
        raise ProposerError("away", permanent=False, calls=calls)

    worker, run = Worker(ScriptedProposer(dict.fromkeys(range(1, 60), fail))), limited(concurrency=1, tokens=500)
    worker.run(run)
    ledger = ledger_of(run.pk)
    assert kinds(run)[-1] == "run.paused"
    assert (ledger.spent.steps, ledger.reserved.steps, ledger.spent.tokens) == (0, 0, 8 * 7)


def test_calls_without_a_price_count_as_much_as_their_steps_held():
    run = Worker(billed(price=None)).run(limited(concurrency=1, usd=Decimal("0.1")))
    assert (len(told(run)), ledger_of(run.pk).spent.usd) == (5, Decimal("0.10"))


def test_after_its_deadline_a_search_withdraws_what_waits_and_ends():
    worker, run = Worker(), limited(wall_s=10.0)
    worker.do(FollowUp("advance", run.pk))
    worker.now = run.created_at + timedelta(seconds=11)
    worker.work(worker.later(0))
    run.refresh_from_db()
    assert (run.state, run.stop_reason) == (Run.State.FINISHED, "Wall-clock limit reached: 11 of 10 s.")
    assert run.nodes.filter(state=Node.State.CANCELLED).count() == 4


def test_budget_added_to_a_finished_search_lets_it_go_on():
    worker, run = Worker(), limited(steps=3)
    worker.run(run)
    for _ in range(2):
        run_budget_add(run=run, delta={"steps": 2}, user=None, key="k")
    run = worker.run(run)
    assert (run.state, run.steps, len(told(run))) == (Run.State.FINISHED, 5, 5)
    assert AuditEntry.objects.get(verb="run.budget").after == {"steps": 5}
    assert kinds(run).count("budget.added") == 1
    assert replay_run(run).first is None


@pytest.mark.parametrize(
    ("limits", "words"), [({"evaluations": 4}, "limit of evaluations"), ({"device_s": 9.0}, "limit of device seconds")]
)
def test_a_kernel_by_hand_is_refused_where_a_limit_has_no_room_for_it(limits, words):
    worker, run = Worker(), limited(**limits)
    worker.do(FollowUp("advance", run.pk))
    with pytest.raises(ActionRefused, match=words):
        steer_inject(run=run, source=BY_HAND, user=None)
    assert Run.objects.get(pk=run.pk).steps == 20 and run.nodes.count() == 5


def test_a_kernel_by_hand_holds_device_time_but_no_call():
    run = limited(device_s=9.0, tokens=15)
    steer_inject(run=run, source=BY_HAND, user=None)
    held = ledger_of(run.pk).reserved
    assert (held.steps, held.evaluations, held.device_ms, held.tokens) == (1, 1, 2000, 0)


@pytest.mark.parametrize(
    ("delta", "words"),
    [
        ({"steps": 0}, "more than 0"),
        ({"steps": 10_000}, "at most 10000 steps"),
        ({"tokens": 5}, "no limit of tokens"),
        ({"w": 1}, "Specify what to add"),
        ({}, "Specify what to add"),
    ],
)
def test_a_wrong_addition_is_refused_and_changes_nothing(delta, words):
    run = make_run()
    before = kinds(run)
    with pytest.raises(ActionRefused, match=words):
        run_budget_add(run=run, delta=delta, user=None)
    assert (kinds(run), Run.objects.get(pk=run.pk).steps) == (before, 5)


def test_an_addition_that_leaves_another_limit_reached_is_refused():
    worker, run = Worker(), limited(evaluations=2)
    worker.run(run)
    with pytest.raises(ActionRefused, match=r"cannot continue\. Evaluation limit reached"):
        run_budget_add(run=run, delta={"steps": 2}, user=None)
    assert Run.objects.get(pk=run.pk).state == Run.State.FINISHED


def test_a_stopped_search_takes_no_budget():
    run = make_run()
    Run.objects.filter(pk=run.pk).update(state=Run.State.STOPPED)
    with pytest.raises(ActionRefused, match="it is stopped"):
        run_budget_add(run=run, delta={"steps": 2}, user=None)


def test_a_share_of_the_roofline_that_is_reached_ends_the_search_with_its_basis():
    run = limited(concurrency=1, roofline_share=0.5)
    run.problem.admission["interpreter"]["roofline"] = {"bound_us": 6.0}
    run.problem.save()
    run = Worker(bench=FakeBench({0: passed(2.0)})).run(run)
    words = "Goal of 50% of the roofline reached: 60% (2.0× [1.8–2.2] MODELLED over eager)."
    assert (run.state, run.stop_reason, len(told(run))) == (Run.State.FINISHED, words, 1)


def test_patience_added_to_a_search_that_stood_still_lets_it_go_on():
    worker, run = Worker(bench=FakeBench({k: passed(2.0) for k in range(40)})), limited(concurrency=1, stale_steps=5)
    worker.run(run)
    run_budget_add(run=run, delta={"stale_steps": 3}, user=None)
    assert (len(told(worker.run(run))), Run.objects.get(pk=run.pk).limits["stale_steps"]) == (9, 8)
