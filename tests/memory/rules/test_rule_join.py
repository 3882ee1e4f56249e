"""A failure supports the rule that says the same, else a new one."""

from __future__ import annotations

import pytest
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused
from memory.failures.models import Failure
from memory.prompting.scopes import Scope
from memory.rules.models import Rule
from memory.rules.queries import RuleFilter, evidences, likeness_now, rule_ids
from memory.rules.services import rule_join
from tests.memory import decisions as acts
from tests.memory.decisions import rule_merge, rule_split
from tests.memory.rule_rows import card, failures, fresh, person, rule, seen_by

pytestmark = pytest.mark.django_db
CLAIM = "Do not call tl.any: this Triton has none."


def join(failure: Failure, claim: str = CLAIM, pattern: str = "triton.no_name", scope: Scope | None = None) -> Rule:
    return rule_join(failure=failure, claim=claim, pattern=pattern, origin="pattern", scope=scope or Scope())


def test_the_second_failure_joins_and_the_same_one_twice_changes_nothing():
    one, two = failures(2)
    made = join(one)
    assert (made.state, made.origin, made.current.text) == ("proposed", "pattern", CLAIM)
    assert join(two) == join(two) == join(one) == made
    assert seen_by(made) == {one.pk, two.pk} and Rule.objects.count() == 1


def test_support_counts_problems_not_failures():
    made = [join(row) for row in [*failures(3), *failures(2, problem="gelu")]].pop()
    other = rule("Do not use tl.all.")
    found = evidences([made.pk, other.pk], timezone.now(), likeness_now())
    assert [found[made.pk].support, found[other.pk].support, found[made.pk].count] == [2, 0, 5]
    assert rule_ids(RuleFilter(least=2), timezone.now()) == [made.pk]


def test_other_words_for_the_same_join_and_another_name_or_pattern_does_not():
    one, two, three, four = failures(4)
    made = join(one)
    assert join(two, "Do not call `triton.language.any`; this Triton has none.") == made
    assert join(three, CLAIM.replace("any", "all")) != made
    assert join(four, pattern="triton.other") != made


def test_a_person_s_rule_without_a_pattern_takes_what_says_the_same():
    written = rule(CLAIM)
    assert join(failures(1)[0]) == written


def test_scopes_that_cannot_meet_are_two_rules_and_the_equal_scope_comes_first():
    one, two, three, four = failures(4)
    ninety, eighty = join(one, scope=Scope(arch="sm_90")), join(two, scope=Scope(arch="sm_80"))
    assert ninety != eighty
    assert join(three, scope=Scope(arch="sm_80")) == eighty
    assert join(four) == ninety


def test_a_rejected_rule_collects_sightings_and_stays_rejected():
    one, two = failures(2)
    made = join(one)
    acts.rule_reject(reason="3", **card(made, person()))
    assert join(two) == made
    assert (fresh(made).state, len(seen_by(made))) == ("rejected", 2)


def test_a_merged_rule_s_successor_gets_the_sighting():
    one, two = failures(2)
    made, target = join(one), rule("Write reductions with tl.max.")
    rule_merge(into=target.pk, **card(made))
    assert join(two) == target
    assert seen_by(target) == {one.pk, two.pk}


def test_an_edited_rule_is_known_by_its_old_words():
    one, two = failures(2)
    made = join(one)
    acts.rule_edit(text="Reduce with tl.max over an integer instead.", **card(made, person()))
    assert join(two) == made


def test_evidence_that_a_person_moved_stays_where_it_was_put():
    one, two = failures(2)
    made = join(one)
    join(two)
    new = rule_split(failures=[two.pk], text="Do not reduce booleans in a loop.", **card(made, person())).after["new"]
    assert join(two).pk == new
    assert seen_by(made) == {one.pk}


def test_what_cheated_or_must_not_teach_is_refused():
    cheats = [failures(1, verdict=verdict)[0] for verdict in ("dishonest", "suspect")]
    unfit = failures(1, lesson="unfit", lesson_why="lost worker")[0]
    for row, why in ((cheats[0], "cheated"), (cheats[1], "cheated"), (unfit, "lost worker")):
        with pytest.raises(ActionRefused, match=why):
            join(row)
    with pytest.raises(ActionRefused, match=r"(?i)line"):
        join(failures(1)[0], "Do not do this at line 7.")
    assert not Rule.objects.exists()
