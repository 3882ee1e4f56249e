"""The limits of a run as a value: what they accept, how they are kept, what can be added."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search.ledger.limits import BadLimit, RunLimits, limits_from_texts


def test_limits_come_back_from_json_as_they_were():
    limits = RunLimits(steps=9, usd=Decimal("1.25"), step_usd=Decimal("0.1"), tokens=90_000, target_speedup=2.0)
    assert RunLimits.from_json(limits.to_json(), steps=9) == limits


@given(st.sampled_from(["evaluations", "tokens", "stale_steps", "wall_s", "target_speedup"]), st.integers(-9, 0))
def test_a_limit_of_nothing_is_refused_with_a_sentence(name, value):
    with pytest.raises(ValueError, match="must be from"):
        RunLimits(steps=5, **{name: value})


def test_a_limit_below_what_one_step_holds_is_refused():
    with pytest.raises(ValueError, match="below what is held for a single step"):
        RunLimits(steps=5, tokens=100, step_tokens=200)


def test_money_without_a_share_for_a_step_is_refused():
    with pytest.raises(ValueError, match="step_usd"):
        RunLimits(steps=5, usd=Decimal(1))


def test_text_that_is_no_number_says_so():
    with pytest.raises(ValueError, match="must be a number, not 'a lot'"):
        RunLimits.from_json({"wall_s": "a lot"}, steps=5)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"wall_s": "a lot"}, "wall_s"),
        ({"tokens": 1.5}, "tokens"),
        ({"usd": 1}, "step_usd"),
        ({"device_s": 3}, "device_s"),
    ],
)
def test_a_refused_limit_names_its_field(given, name):
    with pytest.raises(BadLimit) as refused:
        RunLimits.from_json(given, steps=5)
    assert refused.value.name == name


def test_unknown_names_are_listed_with_the_known_ones():
    with pytest.raises(ValueError, match="Unknown limit gpu_s"):
        RunLimits.from_json({"gpu_s": 5}, steps=5)
    with pytest.raises(ValueError, match="a name out of evaluations"):
        limits_from_texts(["steps=5"])


def test_what_is_added_is_added_exactly():
    limits = RunLimits(steps=9, usd=Decimal("0.3"), step_usd=Decimal("0.1"))
    assert limits.extended({"usd": "0.3", "steps": "1"}).usd == Decimal("0.6")
    assert limits.extended({"usd": "0.3", "steps": "1"}).steps == 10


@pytest.mark.parametrize(
    "delta", [{}, {"steps": 0}, {"steps": -3}, {"tokens": 5}, {"step_usd": 1}, {"steps": "x"}, {"steps": 10**400}]
)
def test_what_cannot_be_added_is_refused(delta):
    with pytest.raises(ValueError, match=r"\w"):
        RunLimits(steps=9).extended(delta)
