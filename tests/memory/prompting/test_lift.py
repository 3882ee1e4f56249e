"""Lift from rows: which nodes count, when it is known, over searches that withhold differently, and in few queries."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from judge.evaluations.models import Evaluation
from memory.prompting.choices import MemoryChoice
from memory.prompting.lift import Lift, lifts_of
from memory.prompting.models import RuleUse
from memory.rules.models import Rule, RuleVersion
from memory.rules.services import rules_recheck
from search.records.models import Node, Run
from tests.memory.prompt_rows import make_rule
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db


def told(run: Run, rule: Rule, arm: str, verdicts: list[str], reason: str = "") -> None:
    """Told nodes of one arm; an empty verdict is a node without an evaluation."""
    first, root, now = 1 + run.nodes.count(), run.nodes.get(number=0), timezone.now()
    rows = [
        Evaluation(problem=run.problem, device=run.device, candidate_hash=str(at), verdict=verdict, stage="x")
        for at, verdict in enumerate(verdicts)
    ]
    found = iter(Evaluation.objects.bulk_create(row for row in rows if row.verdict))
    nodes = Node.objects.bulk_create(
        Node(
            **{"run": run, "parent": root, "kind": "large", "state": "told", "told_at": now},
            **{"number": first + at, "told_order": first + at, "reason": "" if verdict else reason},
            evaluation=next(found) if verdict else None,
        )
        for at, verdict in enumerate(verdicts)
    )
    RuleUse.objects.bulk_create(RuleUse(node=node, rule=rule, version=rule.current, arm=arm) for node in nodes)


def shares(run: Run, rule: Rule, shown: tuple[int, int], withheld: tuple[int, int]) -> None:
    for arm, (good, n) in (("shown", shown), ("withheld", withheld)):
        told(run, rule, arm, ["pass"] * good + ["crashed"] * (n - good))


def lift(rule: Rule) -> Lift:
    return lifts_of([rule.pk])[rule.pk]


def test_a_lift_is_known_once_both_arms_have_thirty_nodes():
    rule, run = make_rule(support=0), make_run(memory=MemoryChoice())
    assert lift(rule) == Lift()
    shares(run, rule, (80, 100), (10, 29))
    assert (lift(rule).withheld, lift(rule).known) == (29, False)
    told(run, rule, "withheld", ["wrong"])
    found = lift(rule)
    assert found.estimate == pytest.approx(0.8 - 10 / 30)
    assert found.helpful and not found.harmful and found.low < found.estimate < found.high


def test_harm_is_told_only_when_the_whole_interval_is_below_zero():
    rule, run = make_rule(support=0), make_run(memory=MemoryChoice())
    shares(run, rule, (15, 30), (18, 30))
    assert not lift(rule).harmful and lift(rule).estimate < 0
    shares(run, rule, (10, 100), (60, 100))
    assert lift(rule).harmful


def test_faults_of_the_judge_and_what_it_left_open_count_in_no_arm():
    rule, run = make_rule(support=0), make_run(memory=MemoryChoice())
    told(run, rule, "shown", ["pass", "lost", "suspect", "unsupported", "cancelled", "dishonest", "timed_out"])
    told(run, rule, "withheld", ["", ""], reason="lost.attempts")
    told(run, rule, "withheld", [""], reason="proposal.no_code")
    told(run, rule, "left_out", ["pass"])
    assert lift(rule) == Lift(shown=3, shown_valid=1, withheld=1, withheld_valid=0)


def test_a_node_in_flight_does_not_count_yet():
    rule, run = make_rule(support=0), make_run(memory=MemoryChoice())
    told(run, rule, "shown", ["pass"])
    Node.objects.filter(run=run, kind="large").update(state="judging", told_order=None)
    assert lift(rule) == Lift()


def test_searches_that_withhold_differently_are_not_thrown_together():
    """An easy problem that withheld half and a hard one that withheld a tenth: pooled, a useless rule looks bad."""
    rule = make_rule(support=0)
    shares(make_run(memory=MemoryChoice(withhold=0.5)), rule, (90, 100), (90, 100))
    shares(make_run(memory=MemoryChoice(withhold=0.1)), rule, (90, 900), (10, 100))
    found = lift(rule)
    assert (found.shown_valid / found.shown) - (found.withheld_valid / found.withheld) < -0.3
    assert found.estimate == pytest.approx(0.0) and found.low < 0 < found.high


def test_searches_that_compare_nothing_make_no_lift_known():
    """One shown node beside forty withheld ones is one node, however often other searches always showed the rule."""
    rule = make_rule(support=0)
    shares(make_run(memory=MemoryChoice(withhold=0.0)), rule, (400, 500), (0, 0))
    shares(make_run(memory=MemoryChoice(withhold=0.9)), rule, (1, 1), (2, 40))
    assert lift(rule) == Lift(shown=501, shown_valid=401, withheld=40, withheld_valid=2)
    shares(make_run(memory=MemoryChoice(withhold=0.5)), rule, (30, 40), (10, 40))
    found = lift(rule)
    assert (found.shown, found.withheld, found.known) == (41, 80, True)


def test_what_other_words_did_is_no_lift_of_these():
    rule, run = make_rule("You must mask loads.", support=0), make_run(memory=MemoryChoice())
    shares(run, rule, (10, 40), (35, 40))
    first = rule.current
    rule.current = RuleVersion.objects.create(rule=rule, number=2, text="Mask no load.", words="other")
    rule.save(update_fields=["current"])
    assert lift(rule) == Lift() and rules_recheck() == []
    rule.current = RuleVersion.objects.create(rule=rule, number=3, text=first.text, words=first.words, scope_arch="x")
    rule.save(update_fields=["current"])
    assert lift(rule).harmful and rules_recheck() == [rule.pk]


def test_since_leaves_out_what_was_told_before():
    rule, run = make_rule(support=0), make_run(memory=MemoryChoice())
    other = make_rule("Another.", support=0)
    shares(run, rule, (1, 40), (40, 40))
    told(run, other, "shown", ["pass"])
    later = timezone.now() + timedelta(hours=1)
    found = lifts_of([rule.pk, other.pk], since={rule.pk: later})
    assert (found[rule.pk], found[other.pk].shown) == (Lift(), 1)


def test_one_query_for_all_rules():
    rules = [make_rule(f"Rule {at}.", support=0) for at in range(5)]
    run = make_run(memory=MemoryChoice())
    for rule in rules:
        told(run, rule, "shown", ["pass", "wrong"])
    with CaptureQueriesContext(
        connection,
    ) as queries:
        found = lifts_of([*(rule.pk for rule in rules), 10**6])
    assert len(queries) == 1
    assert [one.shown for one in found.values()] == [2, 2, 2, 2, 2, 0]
