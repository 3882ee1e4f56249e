"""Dealing rules to one prompt: by seed, number and words alone, within the budget, and fair to both arms."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from memory.prompting.assignment import HEAD_TOKENS, LEFT_OUT, SHOWN, WITHHELD, Held, dealt, tokens_of, within_reach

RULES = tuple(Held(at, f"rule {at}", 20) for at in range(10))


def deal(number: int, rules: tuple[Held, ...] = RULES, seed: int = 7, probability: float = 0.1, room: int = 1500):
    return dealt(rules, seed=seed, number=number, probability=probability, budget_tokens=room)


def test_a_tenth_is_withheld_and_rules_are_drawn_independently():
    arms = [dict(deal(number)) for number in range(4000)]
    for at in range(10):
        share = sum(one[at] == WITHHELD for one in arms) / 4000
        assert 0.08 < share < 0.12
    both = sum(one[0] == one[1] == WITHHELD for one in arms) / 4000
    assert 0.004 < both < 0.018


@given(st.integers(0, 1 << 62), st.integers(1, 10_000), st.permutations(RULES))
def test_the_draw_of_a_rule_depends_on_nothing_but_seed_number_and_words(seed, number, order):
    assert dict(deal(number, tuple(order), seed)) == dict(deal(number, RULES, seed))


def test_equal_words_are_withheld_together():
    twins = (Held(1, "same", 20), Held(2, "same", 20))
    assert all(len({arm for _, arm in deal(number, twins)}) == 1 for number in range(500))


def test_what_has_no_room_is_left_out_and_a_withheld_rule_takes_none():
    counts = Counter(arm for number in range(300) for _, arm in deal(number, room=HEAD_TOKENS + 60))
    assert counts[LEFT_OUT] and counts[WITHHELD]
    for number in range(300):
        shown = [version for version, arm in deal(number, room=HEAD_TOKENS + 60) if arm == SHOWN]
        assert len(shown) <= 3
    assert {arm for _, arm in deal(1, room=0)} == {LEFT_OUT}


def test_only_rules_with_room_are_drawn_for():
    large = (*RULES[:3], Held(99, "large", 500))
    assert {dict(deal(number, large, room=HEAD_TOKENS + 200))[99] for number in range(300)} == {LEFT_OUT}


def test_a_probability_of_zero_shows_all_and_of_one_none():
    assert {arm for _, arm in deal(1, probability=0.0)} == {SHOWN}
    assert {arm for _, arm in deal(1, probability=1.0)} == {WITHHELD}


def test_what_lies_behind_the_reach_comes_into_no_prompt():
    many = tuple(Held(at, f"rule {at}", 25) for at in range(400))
    reach = within_reach([25] * 400, probability=0.1, budget_tokens=600)
    last = max(at for number in range(500) for at, arm in deal(number, many, room=600) if arm != LEFT_OUT)
    assert last < reach < 60


def test_tokens_are_estimated_from_the_length():
    assert tokens_of("x" * 35) == 12
