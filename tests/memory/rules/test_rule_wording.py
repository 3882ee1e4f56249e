"""When two rules say the same, are nearly the same, or contradict each other."""

from __future__ import annotations

from itertools import combinations

import pytest

from memory.prompting.scopes import Scope
from memory.rules.files import read_rules
from memory.rules.queries import Evidence, review_value
from memory.rules.wording import COMMON, Said, agreement, changes, likeness_of, normal, wording, words_hash

SAME = [
    ("You cannot access triton.language.concat.", "You cannot access tl.concat."),
    ("Do not call tl.dot on a scalar.", "do not call `tl.dot` on a scalar"),
    ("You cannot access the attribute 'mod' on the triton.language module.", "You cannot access triton.language.mod."),
    ("Do not use break statements in a Triton kernel.", "You cannot use the break statement inside a Triton kernel."),
]
OTHER = [
    ("You cannot use triton.language.any.", "You cannot use triton.language.all."),
    ("You cannot use tl.pow.", "Use tl.pow."),
    ("You cannot call sum with the keyword argument 'axes'.", "You cannot call sum with the keyword argument 'mask'."),
    ("You cannot pass 6 positional arguments.", "You cannot pass 10 positional arguments."),
    ("You cannot pass an integer as the grid.", "You cannot compile the Triton kernel."),
]


def says_same(a: str, b: str) -> float:
    return 1.0 if normal(a) == normal(b) else agreement(wording(a), wording(b))


@pytest.mark.parametrize(("a", "b"), SAME)
def test_the_same_in_other_words_says_the_same(a, b):
    assert says_same(a, b) > 0.7 and says_same(b, a) == says_same(a, b)


@pytest.mark.parametrize(("a", "b"), OTHER)
def test_another_name_number_or_sign_is_another_rule(a, b):
    assert says_same(a, b) == 0


def test_normal_words_forget_case_aliases_and_punctuation_only():
    assert words_hash("Do not  use `tl.any`.") == words_hash("do not use triton.language.any")
    assert normal("BLOCK_M, tl.any") != normal("BLOCK_N, tl.any")


def test_no_two_published_rules_are_taken_for_one(fixtures_dir):
    lines = read_rules((fixtures_dir / "adaexplore_rules_v1_200.txt").read_bytes())
    assert [(a, b) for a, b in combinations([line.text for line in lines], 2) if says_same(a, b)] == []


def test_near_duplicates_are_found_among_many_and_the_likest_comes_first():
    said = [Said(k, f"You cannot call tl.op{k} with {k} arguments.") for k in range(3, 300)]
    said += [
        Said(1, "You cannot call torch.add with an out argument."),
        Said(2, "You cannot call torch.add with an out=... argument when one argument requires grad."),
    ]
    index = likeness_of(tuple(said))
    assert [pk for pk, _ in index.near(1)] == [2]
    assert index.near(17) == []


def test_a_rule_and_its_opposite_contradict_each_other_where_both_can_hold():
    texts = ["Do not cast the accumulator with tl.cast.", "Always cast the accumulator with tl.cast."]
    scopes = [Scope(arch="sm_90"), Scope(), Scope(arch="sm_80")]
    said = (Said(1, texts[0], scopes[0]), Said(2, texts[1], scopes[1]), Said(3, texts[1], scopes[2]))
    index = likeness_of(said)
    assert (index.against(1), index.against(2), index.contradicted) == ([2], [1], frozenset({1, 2}))


def test_a_contradiction_is_found_by_any_rare_name_not_only_by_the_rarest():
    index = likeness_of(
        (
            Said(1, "Do not mix tl.cast, tl.where and tl.arange."),
            Said(2, "Always mix tl.where and tl.arange."),
            Said(3, "Do not mix tl.where and tl.arange."),
        )
    )
    assert index.against(1) == [2] and [pk for pk, _ in index.near(1)] == [3]


def test_names_that_most_rules_have_are_looked_up_only_where_there_is_no_rarer_one():
    common = [Said(k, f"You cannot call tl.dot with tl.op{k}.") for k in range(10, 11 + COMMON)]
    index = likeness_of((*common, Said(1, "You cannot call tl.dot with tl.odd."), Said(2, "You cannot call tl.dot.")))
    assert index._sharing(1) == set()
    assert len(index._sharing(2)) == COMMON + 2


def test_changes_give_both_texts_back():
    old, new = "Do not call tl.dot on a scalar.", "Never call tl.dot on one element."
    pieces = changes(old, new)
    assert "".join(p.text for p in pieces if p.kind != "new") == old
    assert "".join(p.text for p in pieces if p.kind != "gone") == new


def test_a_review_is_worth_more_with_support_recency_cost_and_conflict():
    plain = Evidence(support=2, count=4, age_s=86_400.0 * 30, cost_s=10)
    for more in ({"support": 5}, {"age_s": 60.0}, {"cost_s": 900.0}, {"contradicted": True}, {"recheck": True}):
        assert review_value(Evidence(**{**plain.__dict__, **more})) > review_value(plain)
    assert review_value(Evidence(support=1)) > review_value(Evidence(imported=138.0))
