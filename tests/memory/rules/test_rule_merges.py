"""Merging and splitting move sightings and lose none, in any order, with undo in between."""

from __future__ import annotations

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adaexplore_site.core.audit import ActionRefused
from memory.prompting.scopes import Scope
from memory.rules.models import Rule, Sighting
from memory.rules.queries import history_of
from memory.rules.services import rule_join
from tests.memory.decisions import rule_create, rule_merge, rule_split, rule_unmerge, undo
from tests.memory.rule_rows import card, failures, fresh, person, rule, seen_by, verbs

pytestmark = pytest.mark.django_db


def two_that_share() -> tuple[Rule, Rule, list[int]]:
    """Rules a (failures 0, 1, 2) and b (2, 3)."""
    rows = failures(4)
    a = Rule.objects.get(
        pk=int(rule_create(text="Do not use tl.a.", scope=Scope(), user=None, failures=rows[:3]).object_id)
    )
    b = Rule.objects.get(
        pk=int(rule_create(text="Do not use tl.b.", scope=Scope(), user=None, failures=rows[2:]).object_id)
    )
    return a, b, [row.pk for row in rows]


def test_a_merge_moves_what_the_other_has_not_and_says_from_where():
    a, b, ids = two_that_share()
    rule_merge(into=b.pk, **card(a, person()))
    assert (fresh(a).state, fresh(a).merged_into, seen_by(b)) == ("merged", b, set(ids))
    assert seen_by(a) == {ids[2]}
    assert set(b.sightings.filter(moved_from=a).values_list("failure_id", flat=True)) == set(ids[:2])
    assert verbs(b)[-1] == "rule.take_in" and fresh(b).revision == 1


def test_a_merge_is_undone_as_it_was():
    a, b, ids = two_that_share()
    act = rule_merge(into=b.pk, **card(a))
    undo(act.pk, user=None)
    assert (fresh(a).state, seen_by(a), seen_by(b)) == ("proposed", set(ids[:3]), set(ids[2:]))
    assert not Sighting.objects.exclude(moved_from=None).exists()


def test_a_merge_is_undone_after_what_came_later_was_undone_on_both_sides():
    a, b, ids = two_that_share()
    c = rule("Do not use tl.c.")
    first = rule_merge(into=b.pk, **card(a))
    second = rule_merge(into=b.pk, **card(c))
    third = rule_merge(into=rule("Do not use tl.d.").pk, **card(b))
    with pytest.raises(ActionRefused, match="came later"):
        undo(first.pk, user=None)
    for act in (third, second, first):
        undo(act.pk, user=None)
    assert (fresh(a).state, fresh(b).state, seen_by(a), seen_by(b)) == ("proposed",) * 2 + (set(ids[:3]), set(ids[2:]))
    assert [
        deed.undone for deed in history_of(fresh(b)) if deed.text.startswith("Rule") and "sightings" in deed.text
    ] == [
        True,
        True,
    ]


def test_a_merged_rule_parts_again_after_later_acts_with_what_it_brought():
    a, b, ids = two_that_share()
    c = rule("Do not use tl.c.")
    rule_merge(into=b.pk, **card(a))
    rule_merge(into=c.pk, **card(b))
    late = failures(1)[0]
    assert rule_join(failure=late, claim="Do not use tl.a.", pattern="", origin="pattern", scope=Scope()) == c
    act = rule_unmerge(**card(a))
    assert (fresh(a).state, seen_by(a), seen_by(c)) == ("proposed", set(ids[:3]), {*ids[2:], late.pk})
    undo(act.pk, user=None)
    assert (fresh(a).merged_into, seen_by(c)) == (b, {*ids, late.pk})


def test_a_split_moves_the_chosen_to_a_rule_of_its_own_and_is_undone():
    a, _, ids = two_that_share()
    act = rule_split(failures=ids[:1], text="Do not use tl.a in loops.", **card(a, person()))
    new = Rule.objects.get(pk=act.after["new"])
    assert (seen_by(a), seen_by(new), new.state, new.current.why) == (
        set(ids[1:3]),
        {ids[0]},
        "proposed",
        f"split from {a.pk}",
    )
    undo(act.pk, user=None)
    assert (seen_by(a), fresh(new).merged_into) == (set(ids[:3]), a)


def test_what_cannot_be_merged_or_split_is_refused_and_changes_nothing():
    a, b, ids = two_that_share()
    before = list(Sighting.objects.order_by("pk").values_list("rule", "failure", "moved_from"))
    for into in (a.pk, 999_999):
        with pytest.raises(ActionRefused):
            rule_merge(into=into, **card(a))
    for chosen, text in (
        ([], "Do not x."),
        (ids[:3], "Do not x."),
        (ids[3:], "Do not x."),
        (ids[:1], "Do not use tl.b."),
    ):
        with pytest.raises(ActionRefused):
            rule_split(failures=chosen, text=text, **card(a))
    assert rule_unmerge(**card(a)) is None
    rule_merge(into=b.pk, **card(a))
    with pytest.raises(ActionRefused, match=f"merged into rule {b.pk}"):
        rule_merge(into=a.pk, **card(b))
    undo(fresh_act("rule.merge"), user=None)
    assert list(Sighting.objects.order_by("pk").values_list("rule", "failure", "moved_from")) == before


def fresh_act(verb: str) -> int:
    from adaexplore_site.core.models import AuditEntry

    return AuditEntry.objects.filter(verb=verb).order_by("-pk").values_list("pk", flat=True)[0]


STEPS = st.lists(
    st.tuples(st.sampled_from(["merge", "split", "unmerge", "undo", "join"]), st.integers(0, 9), st.integers(0, 9)),
    min_size=1,
    max_size=10,
)


@given(steps=STEPS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_order_of_merges_splits_and_undos_loses_a_sighting(steps, django_db_setup):
    with transaction.atomic():
        _walk(steps)
        transaction.set_rollback(True)


def _walk(steps: list[tuple[str, int, int]]) -> None:
    a, b, ids = two_that_share()
    rules, seen, acts, pairs = [a.pk, b.pk, rule("Do not use tl.c.").pk], set(ids), [], 5
    for count, (what, x, y) in enumerate(steps):
        row, given = Rule.objects.get(pk=rules[x % len(rules)]), Rule.objects.get(pk=rules[y % len(rules)])
        try:
            with transaction.atomic():
                if what == "merge":
                    acts += [act.pk for act in [rule_merge(into=given.pk, **card(row))] if act]
                elif what == "unmerge":
                    acts += [act.pk for act in [rule_unmerge(**card(row))] if act]
                elif what == "undo" and acts:
                    undo(acts.pop(), user=None)
                elif what == "split":
                    own = sorted(seen_by(row))
                    act = rule_split(failures=own[: 1 + y % 3], text=f"Do not use tl.z{count}.", **card(row))
                    acts.append(act.pk)
                    rules.append(act.after["new"])
                elif what == "join":
                    late = failures(1)[0]
                    rule_join(failure=late, claim=row.current.text, pattern="", origin="pattern", scope=Scope())
                    seen.add(late.pk)
                    pairs += 1
        except ActionRefused:
            pass
        living = Sighting.objects.exclude(rule__state="merged").values_list("failure_id", flat=True)
        assert set(living) == seen, "a failure supports no rule any more"
        assert Sighting.objects.count() == pairs, "a sighting is gone, or is there twice"
