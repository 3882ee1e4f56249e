"""Acts of people on one rule: states, wording, scope, revisions, undo."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from memory.prompting.scopes import Scope
from memory.rules.models import REASONS, Rule
from memory.rules.queries import history_of
from memory.rules.services import RuleChanged, rule_hold
from tests.memory import decisions as acts
from tests.memory.decisions import rule_create, undo
from tests.memory.rule_rows import card, fresh, person, rule, verbs

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def approved(**more):
    row = rule(**more)
    acts.rule_approve(**card(row, person()))
    return row


def test_approval_says_who_and_when_and_is_undone():
    row, rita = rule(), person()
    act = acts.rule_approve(**card(row, rita))
    assert (fresh(row).state, fresh(row).decided_by, fresh(row).decided_at > NOW) == ("approved", rita, True)
    assert act.after["own"] is False
    undo(act.pk, user=rita)
    assert (fresh(row).state, fresh(row).decided_by, fresh(row).revision) == ("proposed", None, 2)
    assert verbs(row) == ["rule.create", "rule.approve", "rule.undo"]


def test_one_s_own_rule_may_be_approved_and_is_marked():
    rita = person()
    act = acts.rule_approve(**card(rule(user=rita), rita))
    assert act.after["own"] is True


def test_a_decision_on_an_older_card_changes_nothing():
    row, old = rule(), card(rule("Do not use tl.any."))
    old = card(row)
    acts.rule_edit(text="Do not call tl.dot on a scalar.", **card(row, person()))
    with pytest.raises(RuleChanged) as told:
        acts.rule_approve(**old)
    assert (told.value.rule.revision, fresh(row).state, fresh(row).current.number) == (1, "proposed", 2)


def test_the_same_key_is_one_act():
    row = rule()
    given = card(row, person(), key="once")
    assert acts.rule_approve(**given) == acts.rule_approve(**given)
    assert fresh(row).revision == 1


@pytest.mark.parametrize(("reason", "kept"), [("4", REASONS["4"]), ("  it is  wrong ", "it is wrong")])
def test_a_rejection_keeps_its_reason_and_is_restored(reason, kept):
    row, rita = rule(), person()
    acts.rule_reject(reason=reason, **card(row, rita))
    assert (fresh(row).state, fresh(row).reject_reason) == ("rejected", kept)
    acts.rule_restore(**card(row, rita))
    assert (fresh(row).state, fresh(row).reject_reason, fresh(row).decided_at) == ("proposed", "", None)


def test_states_follow_each_other_in_order_only():
    row = rule()
    with pytest.raises(ActionRefused, match="Only an approved rule is retired"):
        acts.rule_retire(reason="1", **card(row))
    acts.rule_approve(**card(row))
    with pytest.raises(ActionRefused, match="Only a rejected or retired rule is restored"):
        acts.rule_restore(**card(row))
    with pytest.raises(ActionRefused, match="Only a proposed rule"):
        acts.rule_reject(reason="1", **card(row))
    acts.rule_retire(reason="2", **card(row))
    assert fresh(row).state == "retired"
    with pytest.raises(ActionRefused, match="Only an approved rule is retired"):
        acts.rule_retire(reason="3", **card(row))
    assert fresh(row).reject_reason == REASONS["2"]


def test_a_rule_in_doubt_is_confirmed_by_approving_it_again():
    row = approved()
    Rule.objects.filter(pk=row.pk).update(recheck="Triton changed")
    acts.rule_approve(**card(row))
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
    acts.rule_defer(days=7, **card(row))
    due = fresh(row).deferred_until
    assert (fresh(row).state, due > NOW + timedelta(days=7)) == ("proposed", True)
    with pytest.raises(ActionRefused, match="greater than or equal to 1"):
        acts.rule_defer(days=0, **card(row))


def test_an_act_is_not_undone_after_a_later_one_and_only_once():
    row, rita = rule(), person()
    first = acts.rule_approve(**card(row, rita))
    later = acts.rule_retire(reason="1", **card(row, rita))
    with pytest.raises(ActionRefused, match="changed after this action"):
        undo(first.pk, user=rita)
    undone = undo(later.pk, user=rita, key="k")
    assert undo(later.pk, user=rita, key="k") == undone
    with pytest.raises(ActionRefused, match="undone already"):
        undo(later.pk, user=rita)
    with pytest.raises(ActionRefused, match="can't be undone: do the action again"):
        undo(undone.pk, user=rita)


def test_acts_are_undone_one_after_the_other_down_to_the_first():
    row, rita = rule(), person()
    edit = acts.rule_edit(text="Do not call tl.dot on two elements.", **card(row, rita))
    approval = acts.rule_approve(**card(row, rita))
    assert [row.entry.pk for row in history_of(fresh(row)) if row.standing.label] == [approval.pk]
    undo(approval.pk, user=rita)
    assert [row.entry.pk for row in history_of(fresh(row)) if row.standing.label] == [edit.pk]
    undo(edit.pk, user=rita)
    assert (fresh(row).state, fresh(row).current.number) == ("proposed", 1)
    acts.rule_defer(days=2, **card(row, rita))
    assert [found.text for found in history_of(fresh(row)) if found.standing.label] == [
        f"Rule {row.pk} was deferred by 2 days."
    ]


def test_undoing_an_edit_puts_the_old_words_back_and_keeps_both():
    row = rule()
    act = acts.rule_edit(text="Never call tl.dot on a scalar.", **card(row, person()))
    undo(act.pk, user=None)
    assert (fresh(row).current.number, row.versions.count()) == (1, 2)
    acts.rule_edit(text="Never call tl.dot so.", **card(row, person()))
    assert fresh(row).current.number == 3


def test_a_new_rule_is_removed_while_nobody_has_changed_or_seen_it():
    seen, act = rule(seen=1), AuditEntry.objects.get(verb="rule.create")
    with pytest.raises(ActionRefused, match="seen or used since"):
        undo(act.pk, user=None)
    seen.sightings.all().delete()
    undo(act.pk, user=None)
    assert not Rule.objects.exists()
    with pytest.raises(ActionRefused, match="same"):
        [rule(), rule()]


def test_a_claim_of_a_minute_tells_the_second_reviewer_and_ends_with_an_act():
    row, other, rita, rolf = rule(), rule("Do not use tl.any."), person(), person("rolf")
    assert rule_hold(rule_id=row.pk, user=rita, now=NOW).held_by == rita
    assert rule_hold(rule_id=row.pk, user=rolf, now=NOW).held_by == rita
    assert rule_hold(rule_id=other.pk, user=rita, now=NOW).held_by == rita
    assert fresh(row).held_by is None
    assert rule_hold(rule_id=other.pk, user=rolf, now=NOW + timedelta(seconds=61)).held_by == rolf
    acts.rule_approve(**card(other, rita))
    assert fresh(other).held_by is None
    assert rule_hold(rule_id=999, user=rita, now=NOW) is None
