"""Intervals of medians and what they say: exact numbers, at both sides of every limit."""

from __future__ import annotations

import math

import pytest

from judge.bench.device.statistics import (
    call_of,
    indifference_of,
    interval_ranks,
    kept_blocks,
    median_interval,
    paired_speedup,
    timing_of,
    unpaired_speedup,
)
from judge.values import Basis, SpeedCall, Subject


@pytest.mark.parametrize(
    ("n", "ranks"),
    [(1, (0, 0)), (10, (0, 9)), (11, (0, 10)), (13, (0, 12)), (14, (1, 12)), (16, (1, 14)), (256, (102, 153))],
)
def test_ranks_enclose_the_median_with_at_least_the_confidence(n, ranks):
    assert interval_ranks(n) == ranks
    low, high = ranks
    inside = sum(math.comb(n, k) for k in range(low + 1, high + 1)) / 2**n
    assert inside >= 0.998 or low == 0
    if low:
        assert sum(math.comb(n, k) for k in range(low + 2, high)) / 2**n < 0.998, "a narrower one would not do"


def test_a_smaller_confidence_gives_a_narrower_interval():
    assert interval_ranks(16, 0.5) == (6, 9)


def test_an_interval_is_made_of_samples_and_needs_one():
    assert median_interval([5.0, 1.0, 3.0]) == (1.0, 3.0, 5.0)
    assert median_interval([float(n) for n in range(16, 0, -1)]) == (2.0, 8.5, 15.0)
    with pytest.raises(ValueError, match="no samples"):
        median_interval([])


def test_a_timing_keeps_its_samples_in_their_order():
    timing = timing_of(Subject.EAGER, [3.0, 1.0, 2.0], "cuda_events", mode="x")
    assert (timing.samples_us, timing.low_us, timing.median_us, timing.high_us) == ((3.0, 1.0, 2.0), 1.0, 2.0, 3.0)
    assert (timing.basis, timing.method, timing.detail) == (Basis.MEASURED, "cuda_events", {"mode": "x"})


@pytest.mark.parametrize(
    ("low", "high", "call"),
    [
        (1.011, 1.2, SpeedCall.FASTER),
        (1.01, 1.2, SpeedCall.AMBIGUOUS),
        (0.8, 0.989, SpeedCall.SLOWER),
        (0.8, 0.99, SpeedCall.AMBIGUOUS),
        (0.99, 1.01, SpeedCall.SAME),
        (0.989, 1.01, SpeedCall.AMBIGUOUS),
        (0.99, 1.011, SpeedCall.AMBIGUOUS),
    ],
)
def test_what_an_interval_says(low, high, call):
    assert call_of(low, high) is call


def test_short_times_differ_by_ticks_of_the_clock():
    assert indifference_of(2.0) == pytest.approx(0.032)
    assert indifference_of(100.0) == 0.01 == indifference_of(0.0)
    assert call_of(1.02, 1.03, indifference_of(2.0)) is SpeedCall.SAME


def test_a_paired_speedup_is_the_median_of_the_ratios():
    found = paired_speedup([20.0, 60.0, 44.0], [10.0, 20.0, 11.0], Subject.INCUMBENT)
    assert (found.low, found.value, found.high, found.n) == (2.0, 3.0, 4.0, 3)
    assert (found.basis, found.over, found.call) == (Basis.MEASURED, Subject.INCUMBENT, SpeedCall.FASTER)
    assert paired_speedup([1.0], [1.0]).over is Subject.EAGER
    assert paired_speedup([2.04], [2.0]).call is SpeedCall.SAME, "the clock cannot tell them apart"
    assert paired_speedup([204.0], [200.0]).call is SpeedCall.FASTER
    with pytest.raises(ValueError, match="argument 2"):
        paired_speedup([1.0, 2.0], [1.0])


def test_an_unpaired_speedup_takes_the_worst_of_both_intervals():
    baseline = timing_of(Subject.COMPILE, [8.0, 10.0, 12.0], "cuda_events")
    candidate = timing_of(Subject.CANDIDATE, [4.0, 5.0, 6.0, 5.0], "cuda_events")
    found = unpaired_speedup(baseline, candidate)
    assert (found.value, found.low, found.high) == (2.0, 8.0 / 6.0, 3.0)
    assert (found.n, found.basis, found.over, found.call) == (3, Basis.MEASURED, Subject.COMPILE, SpeedCall.NONE)


def test_blocks_at_another_clock_are_left_out_but_no_more_than_a_fifth():
    assert kept_blocks([0, 0, 0]) == [0, 1, 2]
    assert kept_blocks([]) == []
    assert kept_blocks([100, 100, 100, 100, 101.9]) == [0, 1, 2, 3, 4], "within two per cent"
    assert kept_blocks([100, 97, 100, 100, 100]) == [0, 2, 3, 4]
    assert kept_blocks([100, 103, 100, 100, 100, 0]) == [0, 2, 3, 4, 5], "an unknown clock counts as usual"
    assert kept_blocks([100, 50, 100, 100, 90]) == [0, 2, 3, 4], "the furthest off goes first"
    assert kept_blocks([100, 50, 100, 100]) == [0, 1, 2, 3], "a fifth of four is none"
    ten = [100, 90, 100, 100, 80, 100, 100, 70, 100, 100]
    assert kept_blocks(ten) == [0, 1, 2, 3, 5, 6, 8, 9]
