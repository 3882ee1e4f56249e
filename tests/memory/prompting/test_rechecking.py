"""Which decided rules ask for another look: those that harm, and those bound to a Triton version that has passed."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone

from memory import tasks
from memory.prompting.choices import MemoryChoice
from memory.prompting.lift import lifts_of, rules_compared
from memory.prompting.models import RunMemory
from memory.rules.models import Rule, RuleVersion
from memory.rules.services import rules_recheck, tritons_seen
from search.records.models import Node
from tests.memory.prompt_rows import make_rule
from tests.memory.prompting.test_lift import shares
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db


def started(toolchain: str, days_ago: float = 0) -> None:
    """A search under this toolchain."""
    memory = RunMemory.objects.get(run=make_run(memory=MemoryChoice()))
    moment = timezone.now() - timedelta(days=days_ago)
    RunMemory.objects.filter(pk=memory.pk).update(toolchain=toolchain, frozen_at=moment)


def decided(rule: Rule, days_ago: float) -> None:
    rule.decided_at = timezone.now() - timedelta(days=days_ago)
    rule.save(update_fields=["decided_at"])


def test_a_rule_that_decisively_harms_is_proposed_for_retirement_with_its_figures():
    bad, good, unsure = (make_rule(name, support=0) for name in ("bad", "good", "unsure"))
    run = make_run(memory=MemoryChoice())
    shares(run, bad, (20, 100), (30, 50))
    shares(run, good, (80, 100), (20, 50))
    shares(run, unsure, (45, 100), (25, 50))
    assert rules_recheck() == [bad.pk]
    bad.refresh_from_db()
    assert bad.recheck == (
        "Retire it? Prompts with it gave 40 points fewer valid kernels "
        "(95 % interval 24 to 54; n=100 with it, 50 without); corrected for 3 rules and repeated looks."
    )
    assert bad.state == "approved"
    assert rules_recheck() == []


def test_a_plain_interval_below_zero_accuses_no_rule_that_is_looked_at_all_the_time():
    rule = make_rule(support=0)
    shares(make_run(memory=MemoryChoice()), rule, (40, 100), (30, 50))
    found = lifts_of([rule.pk])[rule.pk]
    assert found.high < 0 and found.leans and not found.harmful
    assert rules_recheck() == []


def test_the_more_rules_are_looked_at_the_more_a_call_takes():
    bad = make_rule("bad", support=0)
    run = make_run(memory=MemoryChoice())
    shares(run, bad, (33, 100), (32, 50))
    assert (rules_compared(), lifts_of([bad.pk])[bad.pk].harmful) == (1, True)
    for at in range(20):
        shares(run, make_rule(f"other {at}", support=0), (30, 30), (30, 30))
    assert rules_compared() == 21 and rules_recheck() == []


def test_a_wording_that_was_given_another_scope_is_one_of_those_that_are_looked_at():
    rule, run = make_rule(support=0), make_run(memory=MemoryChoice())
    for number in (2, 3):
        shares(run, rule, (10, 20), (10, 20))
        old = rule.current
        rule.current = RuleVersion.objects.create(rule=rule, number=number, text=old.text, words=old.words)
        rule.save(update_fields=["current"])
    assert lifts_of([rule.pk])[rule.pk].known and rules_compared() == 1


def test_after_a_person_kept_it_only_new_evidence_asks_again():
    rule, run = make_rule(support=0), make_run(memory=MemoryChoice())
    shares(run, rule, (20, 100), (30, 50))
    Node.objects.filter(run=run, kind="large").update(told_at=timezone.now() - timedelta(days=2))
    decided(rule, days_ago=1)
    assert rules_recheck() == []
    shares(run, rule, (20, 100), (30, 50))
    tasks.recheck_rules()
    tasks.recheck_rules()
    assert "n=100 with it" in Rule.objects.get().recheck


def test_an_upgrade_of_triton_asks_for_version_bound_rules_that_were_decided_before():
    bound, free, later = (
        make_rule(name, support=0, **scope)
        for name, scope in (("bound", {"triton": ">=3.4"}), ("free", {}), ("later", {"triton": "<4"}))
    )
    for rule, days in ((bound, 10), (free, 10), (later, 0)):
        decided(rule, days)
    started("torch 2.11.0 triton 3.6.0 sm_90", days_ago=20)
    assert rules_recheck() == []
    started("torch 2.12.0 triton 3.10.0 sm_90", days_ago=1)
    started("torch 2.12.0 triton odd sm_90")
    assert set(tritons_seen()) == {"3.6.0", "3.10.0"}
    assert rules_recheck() == [bound.pk]
    assert Rule.objects.get(pk=bound.pk).recheck.startswith("Triton 3.10.0 is in use on interpreter")


def test_rejected_and_retired_rules_are_left_alone():
    rule, run = make_rule(support=0, state="retired"), make_run(memory=MemoryChoice())
    shares(run, rule, (20, 100), (30, 50))
    assert rules_recheck() == []


def test_beat_calls_it():
    assert settings.CELERY_BEAT_SCHEDULE["recheck-rules"]["task"] == tasks.recheck_rules.name
