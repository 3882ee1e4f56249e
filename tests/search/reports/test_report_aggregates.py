"""The publication's aggregates, checked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.values import Basis
from search.reports.build import RESAMPLES, SEED, figures, interval, progress, share_interval, shares_above
from search.reports.values import BEST, MEAN, Score

FAILED = Score(correct=False, speedup=0.0)


def good(speedup: float | None) -> Score:
    return Score(correct=True, speedup=speedup)


def values(problems: list[list[Score]], rule: str = BEST) -> dict[str, float | None]:
    found, _ = figures(problems, rule=rule, basis=Basis.MEASURED)
    return {figure.metric: figure.value for figure in found}


def test_failures_count_as_0_in_the_mean_and_as_a_tenth_in_the_geometric_one():
    found = values([[good(2.0)], [FAILED], [good(40.0)], [good(0.5)]])
    assert found["speedup"] == pytest.approx((2 + 0 + 10 + 0.5) / 4)
    assert found["gm10"] == pytest.approx((2 * 0.1 * 10 * 0.5) ** 0.25)
    assert found["median"] == pytest.approx((2 + 0.5) / 2)
    assert found["correct"] == 0.75


def test_fast_at_p_is_strictly_above():
    found = values([[good(1.0)], [good(1.5)], [good(2.0)], [FAILED]])
    assert (found["fast_1"], found["fast_1.5"], found["fast_2"], found["fast_0.5"]) == (0.5, 0.25, 0.0, 0.75)


def test_of_several_searches_the_best_counts_or_the_mean():
    problems = [[good(2.0), FAILED, good(4.0)], [good(20.0), good(1.0)]]
    assert values(problems)["speedup"] == pytest.approx((4 + 10) / 2)
    mean = values(problems, MEAN)
    assert mean["speedup"] == pytest.approx(((2 + 0 + 4) / 3 + (10 + 1) / 2) / 2)
    assert mean["correct"] == pytest.approx((2 / 3 + 1) / 2)


def test_unknown_is_left_out_and_counted_never_zero():
    found, unknown = figures([[good(None)], [good(3.0)], [FAILED]], rule=BEST, basis=Basis.MEASURED)
    by_name = {figure.metric: figure for figure in found}
    assert unknown == 1
    assert (by_name["speedup"].value, by_name["speedup"].n) == (1.5, 2)
    assert (by_name["correct"].value, by_name["correct"].n) == (pytest.approx(2 / 3), 3)


def test_no_problem_gives_no_number_and_one_gives_no_interval():
    assert set(values([]).values()) == {None}
    found, _ = figures([[good(2.0)]], rule=BEST, basis=Basis.MEASURED)
    assert all((figure.low, figure.high) == (None, None) for figure in found)


@settings(deadline=None, max_examples=40)  # two bootstraps of eleven figures each
@given(st.lists(st.one_of(st.none(), st.floats(0.01, 500)), min_size=2, max_size=30))
def test_intervals_hold_their_value_and_are_the_same_every_time(speedups):
    problems = [[FAILED if speedup is None else good(speedup)] for speedup in speedups]
    first, _ = figures(problems, rule=BEST, basis=Basis.MEASURED)
    assert figures(problems, rule=BEST, basis=Basis.MEASURED)[0] == first
    for figure in first:
        assert figure.value is not None and figure.low is not None and figure.high is not None
        assert figure.low <= figure.high and math.isfinite(figure.value)
    assert first[1].value <= 10 and 0.1 - 1e-9 <= first[2].value <= 10 + 1e-9


@settings(deadline=None)
@given(st.lists(st.floats(0, 50), min_size=1, max_size=20))
def test_the_curve_agrees_with_fast_at_p(speedups):
    points = shares_above(speedups)
    assert [share for _, share in points] == sorted((share for _, share in points), reverse=True)
    for limit, share in points:
        assert share == sum(speedup > limit for speedup in speedups) / len(speedups)


def test_progress_is_the_mean_of_capped_bests():
    steps = [[(1, 2.0), (3, 1.0), (5, 30.0)], [(3, 4.0)], []]
    assert progress(steps, last=8) == ((0, 0.0), (1, 2 / 3), (3, 2.0), (5, 14 / 3), (8, 14 / 3))


def test_a_share_of_all_or_none_of_a_few_is_not_certain():
    assert share_interval(1.0, 3) == (pytest.approx(0.4385, abs=1e-4), 1.0)
    assert share_interval(0.0, 3) == (0.0, pytest.approx(0.5615, abs=1e-4))
    low, high = share_interval(0.5, 100)
    assert (low, high) == (pytest.approx(0.4038, abs=1e-4), pytest.approx(0.5962, abs=1e-4))
    assert share_interval(1.0, 1) == (None, None)


@pytest.mark.parametrize("count", [2, 3, 10, 50])
@pytest.mark.parametrize("reduce", [np.mean, np.median])
def test_the_bootstrap_takes_the_quantiles_of_its_resamples(count, reduce):
    speedups = np.random.default_rng(count).exponential(size=count)
    picks = np.random.default_rng(SEED).integers(0, count, size=(RESAMPLES, count))
    by_hand = np.quantile(reduce(speedups[picks], axis=-1), [0.025, 0.975])
    assert interval(speedups, lambda rows: reduce(rows, axis=-1)) == pytest.approx(by_hand, abs=1e-12)
