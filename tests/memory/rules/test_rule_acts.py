"""Acts of people on one rule: states, wording, scope, revisions, undo."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from memory.review.history import deeds_of
from memory.rules import decisions as acts
from memory.rules.claims import rule_hold
from memory.rules.desk import RuleChanged
from memory.rules.models import Rule
from memory.rules.scopes import Scope
from memory.rules.services import rule_create
from memory.rules.undo import rule_undo
from tests.memory.rule_rows import card, failures, fresh, person, rule, seen_by, verbs

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def approved(**more):
    row = rule(**more)
    acts.rule_approve(now=NOW, **card(row, person()))
    return row


def test_approval_says_who_and_when_and_is_undone():
    row, rita = rule(), person()
    act = acts.rule_approve(now=NOW, **card(row, rita))
    assert (fresh(row).state, fresh(row).decided_by, fresh(row).decided_at) == ("approved", rita, NOW)
    assert act.after["own"] is False
    rule_undo(action_id=act.pk, user=rita)
    assert (fresh(row).state, fresh(row).decided_by, fresh(row).revision) == ("proposed", None, 2)
    assert verbs(row) == ["rule.create", "rule.approve", "rule.undo"]


def test_one_s_own_rule_may_be_approved_and_is_marked():
    rita = person()
    act = acts.rule_approve(now=NOW, **card(rule(user=rita), rita))
    assert act.after["own"] is True


def test_a_decision_on_an_older_card_changes_nothing():
    row, old = rule(), card(rule("Do not use tl.any."))
    old = card(row)
    acts.rule_edit(text="Do not call tl.dot on a scalar.", **card(row, person()))
    with pytest.raises(RuleChanged) as told:
        acts.rule_approve(now=NOW, **old)
    assert (told.value.rule.revision, fresh(row).state, fresh(row).current.number) == (1, "proposed", 2)


def test_the_same_key_is_one_act():
    row = rule()
    given = card(row, person(), key="once")
    assert acts.rule_approve(now=NOW, **given) == acts.rule_approve(now=NOW, **given)
    assert fresh(row).revision == 1


@pytest.mark.parametrize(("reason", "kept"), [("4", acts.REASONS["4"]), ("  it is  wrong ", "it is wrong")])
def test_a_rejection_keeps_its_reason_and_is_restored(reason, kept):
    row, rita = rule(), person()
    acts.rule_reject(reason=reason, now=NOW, **card(row, rita))
    assert (fresh(row).state, fresh(row).reject_reason) == ("rejected", kept)
    acts.rule_restore(**card(row, rita))
    assert (fresh(row).state, fresh(row).reject_reason, fresh(row).decided_at) == ("proposed", "", None)


def test_states_follow_each_other_in_order_only():
    row = rule()
    with pytest.raises(ActionRefused, match="Only an approved rule is retired"):
        acts.rule_retire(reason="1", now=NOW, **card(row))
    acts.rule_approve(now=NOW, **card(row))
    with pytest.raises(ActionRefused, match="Only a rejected or retired rule is restored"):
        acts.rule_restore(**card(row))
    with pytest.raises(ActionRefused, match="Only a proposed rule"):
        acts.rule_reject(reason="1", now=NOW, **card(row))
    acts.rule_retire(reason="2", now=NOW, **card(row))
    assert fresh(row).state == "retired"
    with pytest.raises(ActionRefused, match="Only an approved rule is retired"):
        acts.rule_retire(reason="3", now=NOW, **card(row))
    assert fresh(row).reject_reason == acts.REASONS["2"]


def test_a_rule_in_doubt_is_confirmed_by_approving_it_again():
    row = approved()
    Rule.objects.filter(pk=row.pk).update(recheck="Triton changed")
    acts.rule_approve(now=NOW, **card(row))
    assert (fresh(row).state, fresh(row).recheck) == ("approved", "")


def test_a_reviewer_s_edit_keeps_a_rule_approved_and_an_operator_s_proposes_it():
    row = approved()
    acts.rule_edit(text="Do not call tl.dot on a scalar.", why="clearer", **card(row, person()))
    assert (fresh(row).state, fresh(row).current.number, fresh(row).current.why) == ("approved", 2, "clearer")
    acts.rule_edit(text="Do not call tl.dot on scalars.", **card(row, person("otto", "operator")))
    assert (fresh(row).state, fresh(row).decided_by, row.versions.count()) == ("proposed", None, 3)


def test_a_scope_is_a_version_with_the_same_words_and_rolls_back():
    row = rule()
    acts.rule_scope(scope=Scope(arch="sm_90", triton=">=3.4"), **card(row, person()))
    assert (fresh(row).current.scope_arch, fresh(row).current.text) == ("sm_90", row.current.text)
    acts.rule_rollback(number=1, **card(row, person()))
    now = fresh(row).current
    assert (now.number, now.scope_arch, now.why) == (3, "", "back to version 1")


@pytest.mark.parametrize("text", ["", "Do not do it at line 12.", "Do not read /tmp/x/y.py again.", "x" * 1001])
def test_wording_that_is_no_rule_is_refused_with_a_sentence(text):
    row = rule()
    with pytest.raises(ActionRefused):
        acts.rule_edit(text=text, **card(row))
    with pytest.raises(ActionRefused):
        rule_create(text=text, scope=Scope(), user=None)
    assert (row.versions.count(), Rule.objects.count()) == (1, 1)


def test_a_deferred_rule_keeps_its_state_until_its_day():
    row = rule()
    acts.rule_defer(days=7, now=NOW, **card(row))
    assert (fresh(row).state, fresh(row).deferred_until) == ("proposed", NOW + timedelta(days=7))
    with pytest.raises(ActionRefused, match="1 to 365"):
        acts.rule_defer(days=0, now=NOW, **card(row))


def test_an_act_is_not_undone_after_a_later_one_and_only_once():
    row, rita = rule(), person()
    first = acts.rule_approve(now=NOW, **card(row, rita))
    later = acts.rule_retire(reason="1", now=NOW, **card(row, rita))
    with pytest.raises(ActionRefused, match="changed after this act"):
        rule_undo(action_id=first.pk, user=rita)
    undo = rule_undo(action_id=later.pk, user=rita, key="k")
    assert rule_undo(action_id=later.pk, user=rita, key="k") == undo
    with pytest.raises(ActionRefused, match="undone already"):
        rule_undo(action_id=later.pk, user=rita)
    with pytest.raises(ActionRefused, match="not undone"):
        rule_undo(action_id=undo.pk, user=rita)


def test_acts_are_undone_one_after_the_other_down_to_the_first():
    row, rita = rule(), person()
    edit = acts.rule_edit(text="Do not call tl.dot on two elements.", **card(row, rita))
    approval = acts.rule_approve(now=NOW, **card(row, rita))
    assert [deed.id for deed in deeds_of(fresh(row)) if deed.undo] == [approval.pk]
    rule_undo(action_id=approval.pk, user=rita)
    assert [deed.id for deed in deeds_of(fresh(row)) if deed.undo] == [edit.pk]
    rule_undo(action_id=edit.pk, user=rita)
    assert (fresh(row).state, fresh(row).current.number) == ("proposed", 1)
    acts.rule_defer(days=2, now=NOW, **card(row, rita))
    assert [deed.text for deed in deeds_of(fresh(row)) if deed.undo] == [f"Rule {row.pk} was deferred by 2 days."]


def test_undoing_an_edit_puts_the_old_words_back_and_keeps_both():
    row = rule()
    act = acts.rule_edit(text="Never call tl.dot on a scalar.", **card(row, person()))
    rule_undo(action_id=act.pk, user=None)
    assert (fresh(row).current.number, row.versions.count()) == (1, 2)
    acts.rule_edit(text="Never call tl.dot so.", **card(row, person()))
    assert fresh(row).current.number == 3


def test_a_new_rule_has_the_failures_that_it_was_thought_of_and_is_taken_away_untouched_only():
    row = rule(seen=3)
    assert len(seen_by(row)) == 3
    act = AuditEntry.objects.get(verb="rule.create")
    rule_undo(action_id=act.pk, user=None)
    assert not Rule.objects.exists()
    with pytest.raises(ActionRefused, match="same"):
        [rule(), rule()]


def test_a_kernel_that_cheated_supports_nothing():
    for verdict in ("dishonest", "suspect"):
        with pytest.raises(ActionRefused, match="no evidence"):
            rule_create(text="Do not cheat the judge.", scope=Scope(), user=None, failures=failures(1, verdict=verdict))


def test_a_claim_of_a_minute_tells_the_second_reviewer_and_ends_with_an_act():
    row, other, rita, rolf = rule(), rule("Do not use tl.any."), person(), person("rolf")
    assert rule_hold(rule_id=row.pk, user=rita, now=NOW).held_by == rita
    assert rule_hold(rule_id=row.pk, user=rolf, now=NOW).held_by == rita
    assert rule_hold(rule_id=other.pk, user=rita, now=NOW).held_by == rita
    assert fresh(row).held_by is None
    assert rule_hold(rule_id=other.pk, user=rolf, now=NOW + timedelta(seconds=61)).held_by == rolf
    acts.rule_approve(now=NOW, **card(other, rita))
    assert fresh(other).held_by is None
    assert rule_hold(rule_id=999, user=rita, now=NOW) is None
