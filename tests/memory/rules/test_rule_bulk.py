"""One act on every rule of a filter: exactly those told, one undoable batch, in less than two seconds."""

from __future__ import annotations

import pytest
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from memory.rules.files import rules_import
from memory.rules.models import REASONS, Rule
from memory.rules.queries import RuleFilter, batch_of, rule_ids
from tests.memory import decisions as acts
from tests.memory.decisions import rules_bulk, undo
from tests.memory.rule_rows import card, fresh, many, person, rule

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def states() -> set[str]:
    return set(Rule.objects.values_list("state", flat=True))


def test_five_hundred_rules_are_decided_and_undone_with_few_queries(django_assert_max_num_queries):
    rita = person()
    many(500, seen=2)
    with django_assert_max_num_queries(15):
        act = rules_bulk(act="approve", expected=500, typed=500, user=rita, key="once")
    assert states() == {"approved"} and AuditEntry.objects.filter(verb="rule.approve").count() == 500
    assert rules_bulk(act="approve", expected=500, typed=500, user=rita, key="once") == act
    with django_assert_max_num_queries(20):
        undone = undo(act.pk, user=rita)
    assert states() == {"proposed"} and "left" not in undone.after


def test_what_was_changed_since_stays_when_a_batch_is_undone():
    ids = many(4)
    act = rules_bulk(act="reject", reason="2", expected=4, user=person())
    assert set(Rule.objects.values_list("reject_reason", flat=True)) == {REASONS["2"]}
    acts.rule_restore(**card(Rule.objects.get(pk=ids[0])))
    undone = undo(act.pk, user=None)
    assert undone.after["left"] == ids[:1]
    assert states() == {"proposed"}


def test_rules_that_were_reworded_after_the_preview_are_not_approved_unseen():
    row, rita = rule(), person()
    seen = batch_of("approve", [row.pk]).seen
    acts.rule_edit(text="Do call tl.dot on one element.", **card(row, person("olga", "operator")))
    with pytest.raises(ActionRefused, match="changed after the preview"):
        rules_bulk(act="approve", expected=1, seen=seen, user=rita)
    assert states() == {"proposed"}
    seen = batch_of("approve", [row.pk]).seen
    rules_bulk(act="approve", expected=1, seen=seen, user=rita)
    assert states() == {"approved"}


def test_another_rule_in_place_of_one_that_was_seen_is_told():
    first, second = rule("Do not call tl.any."), rule("Do not call tl.all.")
    with pytest.raises(ActionRefused, match="changed after the preview"):
        rules_bulk(
            act="approve",
            q=f"#{second.pk}",
            expected=1,
            seen=batch_of("approve", [first.pk]).seen,
            user=None,
        )


def test_a_batch_is_undone_for_a_rule_whose_later_act_was_undone_too():
    ids = many(2)
    act = rules_bulk(act="approve", expected=2, user=person())
    later = acts.rule_retire(reason="1", **card(Rule.objects.get(pk=ids[0])))
    undo(later.pk, user=None)
    assert "left" not in undo(act.pk, user=None).after
    assert states() == {"proposed"}


def test_another_number_than_was_told_changes_nothing():
    many(3)
    with pytest.raises(ActionRefused, match="3 rules match now, not 2"):
        rules_bulk(act="approve", expected=2, user=None)
    with pytest.raises(ActionRefused, match="Give a reason"):
        rules_bulk(act="reject", expected=3, user=None)
    with pytest.raises(ActionRefused, match="not possible on many"):
        rules_bulk(act="delete", expected=3, user=None)
    assert states() == {"proposed"} and not AuditEntry.objects.exists()


def test_wording_that_must_be_edited_first_is_left_out_and_named():
    rules_import(data=b"You cannot do it at line 3.||4\nYou cannot use tl.any.||2.0\n", name="x.txt", user=None)
    batch = batch_of("approve", rule_ids(RuleFilter(), NOW))
    assert ([row.current.text for row in batch.ready], len(batch.left)) == (["You cannot use tl.any."], 1)
    assert "line" in batch.left[0][1]


def test_the_filter_is_the_whole_query():
    made, seen = rule("Do not use tl.any."), rule("Do not use tl.all.", seen=2)
    acts.rule_defer(days=3, **card(rule("Do not use tl.max.")))
    assert rule_ids(RuleFilter(), NOW) == [made.pk, seen.pk]
    assert rule_ids(RuleFilter(q="tl.any"), NOW) == rule_ids(RuleFilter(q=f"#{made.pk}"), NOW) == [made.pk]
    assert rule_ids(RuleFilter(least=1), NOW) == [seen.pk]
    assert rule_ids(RuleFilter(scope="arch"), NOW) == rule_ids(RuleFilter(flagged=True), NOW) == []
    assert rule_ids(RuleFilter(tab="library"), NOW) == []


def test_a_batch_retires_and_restores():
    ids = many(2, state="approved")
    rules_bulk(act="retire", own_reason="not true any more", tab="library", expected=2, user=None)
    rules_bulk(act="restore", tab="closed", expected=2, user=None)
    rules_bulk(act="defer", expected=2, user=None)
    row = fresh(Rule.objects.get(pk=ids[0]))
    assert (row.state, row.reject_reason, row.deferred_until > NOW, row.revision) == ("proposed", "", True, 3)
