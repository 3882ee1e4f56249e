"""The interval of a difference: textbook values, small arms, strata, and its coverage by simulation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from memory.prompting.lift import ALPHA, Arms, anytime_z, difference, level, wilson
from tests.load.lift import coverage, looks


def test_newcombes_published_examples():
    """Newcombe 1998, table II, method 10."""
    for arms, low, high in (((70, 56, 80, 48), 0.0524, 0.3339), ((10, 9, 10, 3), 0.1705, 0.8090)):
        n, k, m, j = arms
        _, *found = difference([Arms(n, k, m, j)])
        assert found == pytest.approx([low, high], abs=1e-4)


def test_the_interval_of_a_share_is_scipys():
    for n in (1, 2, 7, 30, 400):
        for k in sorted({0, 1, n // 3, n - 1, n}):
            assert wilson(k, n) == pytest.approx(tuple(stats.binomtest(k, n).proportion_ci(0.95, "wilson")), abs=1e-12)


def test_extreme_shares_have_an_interval_of_some_width():
    assert difference([Arms(30, 30, 30, 30)]) == pytest.approx((0.0, -0.1135, 0.1135), abs=1e-3)
    assert wilson(0, 0) == (0.0, 1.0)


def test_an_empty_arm_says_nothing():
    assert difference([Arms(50, 20, 0, 0)]) is None
    assert difference([]) is None
    assert difference([Arms(50, 20, 0, 0), Arms(40, 20, 40, 10)]) == difference([Arms(40, 20, 40, 10)])


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60), st.floats(0, 1), st.floats(0, 1)), min_size=1))
def test_the_estimate_lies_in_its_interval_and_the_interval_in_the_possible(rows):
    strata = [Arms(n, round(n * p), m, round(m * q)) for n, m, p, q in rows]
    middle, low, high = difference(strata)
    assert -1 <= low <= middle + 1e-12 and middle <= high + 1e-12 <= 1 + 2e-12


@pytest.mark.parametrize(("shown", "withheld"), [(0.5, 0.3), (0.95, 0.85), (0.1, 0.1), (0.7, 0.9)])
def test_nineteen_of_twenty_intervals_hold_the_truth_with_thirty_withheld(shown, withheld):
    found = coverage(shown, withheld, n=270, m=30, trials=2000)
    assert 0.93 <= found <= 0.985


def test_a_useless_rule_that_is_looked_at_often_is_hardly_ever_called():
    plain, sure = looks(0.5, 0.5, share=0.4, nodes=600, seeds=100)
    assert plain > 0.1 and sure <= 0.05
    assert looks(0.8, 0.4, share=0.4, nodes=300, seeds=20)[1] == 1.0  # and a good one is


def test_more_rules_take_more():
    assert [round(anytime_z(100, among), 2) for among in (1, 10, 1000)] == [3.28, 4.42, 6.29]


def test_rules_that_come_one_after_the_other_share_one_level_however_many_come():
    assert 0.999 * ALPHA < sum(level(among) for among in range(1, 5000)) <= ALPHA
