"""Assigning rules to the arms of one prompt: by seed, number and text alone, within the budget, fair to both arms."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from memory.prompting.assignment import (
    CONTROL,
    HEAD_TOKENS,
    NO_ROOM,
    TREATMENT,
    FrozenRules,
    PromptRule,
    tokens_of,
    within_reach,
)


def rule(at: int, text_hash: str, tokens: int) -> PromptRule:
    return PromptRule("x" * int((tokens - 2) * 3.5), version=at, text_hash=text_hash)


RULES = tuple(rule(at, f"rule {at}", 20) for at in range(10))


def arms(number: int, rules: tuple[PromptRule, ...] = RULES, seed: int = 7, withhold: float = 0.1, room: int = 1500):
    return [(one.version, arm) for one, arm in FrozenRules(rules, withhold, room).arms(seed=seed, number=number)]


def test_a_tenth_is_withheld_and_rules_are_drawn_independently():
    found = [dict(arms(number)) for number in range(4000)]
    for at in range(10):
        share = sum(one[at] == CONTROL for one in found) / 4000
        assert 0.08 < share < 0.12
    both = sum(one[0] == one[1] == CONTROL for one in found) / 4000
    assert 0.004 < both < 0.018


@given(st.integers(0, 1 << 62), st.integers(1, 10_000), st.permutations(RULES))
def test_the_draw_of_a_rule_depends_on_nothing_but_seed_number_and_words(seed, number, order):
    assert dict(arms(number, tuple(order), seed)) == dict(arms(number, RULES, seed))


def test_equal_words_are_withheld_together():
    twins = (rule(1, "same", 20), rule(2, "same", 20))
    assert all(len({arm for _, arm in arms(number, twins)}) == 1 for number in range(500))


def test_what_has_no_room_is_left_out_and_a_withheld_rule_takes_none():
    counts = Counter(arm for number in range(300) for _, arm in arms(number, room=HEAD_TOKENS + 60))
    assert counts[NO_ROOM] and counts[CONTROL]
    for number in range(300):
        shown = [version for version, arm in arms(number, room=HEAD_TOKENS + 60) if arm == TREATMENT]
        assert len(shown) <= 3
    assert {arm for _, arm in arms(1, room=0)} == {NO_ROOM}


def test_only_rules_with_room_are_drawn_for():
    large = (*RULES[:3], rule(99, "large", 500))
    assert {dict(arms(number, large, room=HEAD_TOKENS + 200))[99] for number in range(300)} == {NO_ROOM}


def test_a_probability_of_zero_shows_all_and_of_one_none():
    assert {arm for _, arm in arms(1, withhold=0.0)} == {TREATMENT}
    assert {arm for _, arm in arms(1, withhold=1.0)} == {CONTROL}


def test_what_lies_behind_the_reach_comes_into_no_prompt():
    many = tuple(rule(at, f"rule {at}", 25) for at in range(400))
    reach = within_reach([25] * 400, probability=0.1, budget_tokens=600)
    last = max(at for number in range(500) for at, arm in arms(number, many, room=600) if arm != NO_ROOM)
    assert last < reach < 60


def test_tokens_are_estimated_from_the_length():
    assert PromptRule("x" * 35).tokens == 12
    assert tokens_of([PromptRule("x" * 35)] * 2) == HEAD_TOKENS + 24 and tokens_of([]) == 0
