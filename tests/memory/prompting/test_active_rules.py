"""Which rules a search freezes: by state, support, scope; in which order; and that later changes do not reach it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from memory.prompting import freezing
from memory.prompting.choices import OFF, MemoryChoice
from memory.prompting.freezing import Evidence, active_rules, memory_freeze
from memory.prompting.lift import Lift
from memory.prompting.models import RunMemory
from memory.prompting.places import place_of, triton_in
from memory.prompting.queries import frozen_of, memory_of
from memory.prompting.scopes import Where, families_of
from memory.rules.models import Rule
from tests.memory.prompt_rows import AUTO, failed_run, make_rule, see
from tests.search.makers import make_device, make_problem, make_run

pytestmark = pytest.mark.django_db
REVIEWED = MemoryChoice()
HERE = Where(frozenset({"matmul"}), "sm_90", "3.6.0")


def texts(choice: MemoryChoice = REVIEWED, where: Where = HERE) -> list[str]:
    return [one.text for one in active_rules(choice, where)]


def test_approved_rules_with_enough_support_are_active_and_proposed_ones_only_on_trust():
    said = {state: f"This rule is {state}." for state in ("approved", "proposed", "rejected", "retired")}
    for state, text in said.items():
        make_rule(text, state=state)
    make_rule("merged", state="merged", merged_into=make_rule("kept"))
    assert texts() == [said["approved"], "kept"]
    assert texts(AUTO) == [said["approved"], said["proposed"], "kept"]


def test_a_proposed_rule_whose_words_nobody_could_approve_is_in_no_prompt():
    text = "Mask every load, as line 12 of the kernel shows."
    rule = make_rule(text, state="proposed", origin="import")
    make_rule("Mask every load that may pass the end.", state="proposed")
    assert texts(AUTO) == ["Mask every load that may pass the end."]
    Rule.objects.filter(pk=rule.pk).update(state="approved")  # decided before texts were checked: people change it
    assert text in texts(AUTO)


def test_failures_on_the_searched_problem_itself_can_be_left_out_of_support():
    rule, run, here = make_rule("You must mask loads.", support=2), failed_run(), make_problem()
    see(rule, run, 0, here)
    assert texts(AUTO) == ["You must mask loads."]
    assert active_rules(AUTO, HERE, Evidence(not_on=here.pk)) == []
    see(rule, run, 2)
    assert [one.score["support"] for one in active_rules(AUTO, HERE, Evidence(not_on=here.pk))] == [3]


def test_support_counts_distinct_problems_not_failures():
    rule = make_rule("stubborn", support=2)
    for _ in range(5):
        see(rule, failed_run(), 0)
    assert texts() == []
    assert texts(MemoryChoice(threshold=2)) == ["stubborn"]


def test_an_approved_rule_of_another_origin_needs_no_sightings_and_a_proposed_one_does():
    make_rule("from a file", support=0, origin="import")
    make_rule("by a person", support=0, origin="person")
    make_rule("only proposed", support=0, origin="import", state="proposed")
    make_rule("distilled here", support=1)
    found = active_rules(AUTO, HERE)
    assert [one.text for one in found] == ["from a file", "by a person"]
    assert all(one.score["vouched"] for one in found)


@pytest.mark.parametrize(
    ("scope", "holds"),
    [
        ({}, True),
        ({"family": "matmul"}, True),
        ({"family": "softmax"}, False),
        ({"arch": "sm_90"}, True),
        ({"arch": "sm_80"}, False),
        ({"triton": ">=3.4,<3.7"}, True),
        ({"triton": "<3.6"}, False),
        ({"triton": "not a range"}, False),
    ],
)
def test_a_rule_holds_where_its_scope_says(scope, holds):
    make_rule("scoped", **scope)
    assert texts() == (["scoped"] if holds else [])


def test_known_lift_comes_before_support_and_a_harmful_rule_comes_last(monkeypatch):
    ids = [make_rule(name, support=n).pk for name, n in (("few", 3), ("many", 5), ("helps", 3), ("harms", 9))]
    lifts = dict(zip(ids, (Lift(), Lift(), Lift(estimate=0.2), Lift(estimate=-0.2)), strict=True))
    monkeypatch.setattr(freezing, "lifts_of", lambda rules: lifts)
    assert texts() == ["helps", "many", "few", "harms"]


def test_a_run_keeps_what_it_froze_whatever_becomes_of_the_rules():
    rule = make_rule()
    run = make_run(memory=MemoryChoice())
    rule.state = "retired"
    rule.save()
    make_rule("newer")
    assert [held.version for held in frozen_of(run.pk).rules] == [rule.current_id]
    memory, rows = memory_of(run.pk)
    assert (memory.threshold, rows[0].text, rows[0].score["support"]) == (3, rule.current.text, 3)


def test_a_search_without_memory_freezes_nothing():
    make_rule()
    assert not frozen_of(make_run(memory=OFF).pk).rules
    assert not frozen_of(make_run().pk).rules


def test_rules_no_prompt_could_reach_are_counted_and_not_kept():
    for at in range(30):
        make_rule(f"rule {at:02d} " + "word " * 60, support=0, origin="person")
    run = make_run(memory=MemoryChoice(budget_tokens=300))
    memory = RunMemory.objects.get(run=run)
    assert memory.rules.count() + memory.beyond == 30
    assert 3 <= memory.rules.count() <= 10


def test_the_place_comes_from_the_preflight_and_its_toolchain():
    node = {"name": "l", "op": "aten.linear.default"}
    environment = {"toolchain": "torch 2.11.0 triton 3.6.0 sm_90"}
    Problem.objects.filter(pk=make_problem().pk).update(
        admission={"interpreter": {"state": "admitted", "graph": {"nodes": [node]}, "environment": environment}}
    )
    where = place_of(make_problem(), make_device())
    assert where == Where(frozenset({"matmul", "aten.linear"}), "sm_90", "3.6.0")
    memory = memory_freeze(
        run_id=_plain_run(), choice=MemoryChoice(), problem=make_problem(), device=make_device(), toolchain=""
    )
    assert memory.toolchain == environment["toolchain"]


def test_what_was_judged_after_the_preflight_tells_of_an_upgrade():
    environment = {"toolchain": "torch 2 triton 3.6.0 sm_90", "at": "2026-01-02T00:00:00+00:00"}
    Problem.objects.filter(pk=make_problem().pk).update(admission={"interpreter": {"environment": environment}})
    problem, device = make_problem(), make_device()
    for day, judged, now in ((1, "3.5.1", "3.6.0"), (3, "3.7.1", "3.7.1")):
        row = Evaluation.objects.create(problem=problem, device=device, toolchain=f"torch 2 triton {judged} sm_90")
        Evaluation.objects.filter(pk=row.pk).update(created_at=datetime(2026, 1, day, tzinfo=UTC))
        assert place_of(problem, device).triton == now


def _plain_run() -> int:
    run = make_run()
    RunMemory.objects.filter(run=run).delete()
    return run.pk


def test_families_are_words_and_the_judges_own_names():
    nodes = [{"op": f"aten.{name}"} for name in ("relu_.default", "view.default", "_softmax.default", "mul.Tensor")]
    assert families_of({"nodes": nodes}) == {
        *("activation", "softmax", "elementwise"),
        *("aten.relu", "aten.view", "aten._softmax", "aten.mul"),
    }
    assert families_of(None) == frozenset()
    assert triton_in("torch 2.11.0 sm_90") == ""
