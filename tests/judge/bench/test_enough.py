"""When a comparison has pairs enough: at both sides of every limit, and how often the rule errs on made-up times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy
import pytest

from judge.bench.device.statistics import LOOKS, paired_speedup
from judge.bench.timing.enough import (
    AGAIN,
    BELOW,
    CHECKS,
    DECIDED,
    MEETS,
    MOST,
    NO_GAIN,
    NO_WIN,
    PRECISE,
    RIVAL_S,
    TIME,
    cannot_exceed,
    why_enough,
)
from judge.values import SpeedCall

MINE = 10.0


def why(
    ratios: Sequence[float], rival: Sequence[float] | None = None, *, elapsed_s: float = 0.0, beat: float | None = None,
    **given: object,
) -> str:  # fmt: skip
    """What is said of pairs with these ratios to eager, and to the best so far."""
    sides = [MINE] * len(ratios), [MINE * one for one in ratios]
    rival_us = None if rival is None else [MINE * one for one in rival]
    return why_enough(*sides, rival_us, beat=beat, elapsed_s=elapsed_s, budget_s=8.0, **given)


def spread(width: float, n: int = 16, middle: float = 2.0) -> list[float]:
    """Ratios around `middle`, `width` apart at the ends, relative to it."""
    return [middle * (1 + width * (k / (n - 1) - 0.5)) for k in range(n)]


def test_it_ends_at_the_last_look_or_when_its_time_is_up():
    assert why([2.0] * 256) == MOST
    assert why(spread(0.4, 41), elapsed_s=7.9) == "", "between two looks"
    assert why(spread(0.4, 8), elapsed_s=8.0) == TIME
    assert why(spread(0.4, 7), elapsed_s=99.0) == "", "a slow one is measured eight times all the same"


def test_beside_eager_a_narrow_interval_that_says_something_or_half_a_second_is_enough():
    assert why(spread(0.11)) == DECIDED, "thirteen fifteenths of that: it leaves out one at each end"
    assert why(spread(0.12)) == "" == why(spread(0.4), elapsed_s=0.49)
    assert why(spread(0.4), elapsed_s=0.5) == TIME
    assert why(spread(0.1, 17)) == "", "no look at 17 pairs"
    assert why(spread(0.05, middle=1.02)) == "", "it says nothing"
    assert why(spread(0.1, 10)) == "", "a win is called at looks only"


def test_what_is_no_faster_than_eager_needs_no_more_pairs():
    assert why(spread(0.05, 20, 0.99)) == NO_GAIN and why(spread(0.05, 14, 0.99)) == ""
    assert why(spread(0.05, 20, 1.01)) == ""
    assert why(spread(0.14, 20, 0.9)) == "", "too wide to print"


def test_where_nobody_asks_who_is_the_best_a_narrow_interval_is_enough():
    assert why(spread(0.05, middle=1.02), beat=math.inf) == PRECISE
    assert why(spread(0.12), beat=math.inf) == ""


def test_what_is_surely_slower_than_the_best_need_not_be_known_as_closely():
    wide = spread(0.22, 10)
    assert why(wide) == "" and why(wide, beat=2.3) == BELOW
    assert why(wide, beat=2.1) == "", "its interval ends at 2.17"
    assert why(wide, beat=math.inf) == "", "nobody asks who is the best"
    assert why(spread(0.3, 10), beat=2.5) == "", "wider than a tenth either way"
    assert why(spread(0.1, 12), beat=9.0) == "", "no check at twelve pairs"


def test_screening_ends_as_soon_as_it_may_meet_the_best():
    assert why(spread(0.22, 10), beat=2.3, screening=True) == BELOW
    assert why(spread(0.22, 10), beat=1.5, screening=True) == MEETS
    assert why(spread(0.22, 10), beat=2.0, screening=True) == ""
    assert why(spread(0.22, 16), beat=2.0, screening=True) == MEETS, "it is not measured for longer than to a look"
    assert why(spread(0.22, 14), beat=2.0, screening=True, elapsed_s=0.5) == MEETS, "half a second is enough"
    assert why(spread(0.9, 10), screening=True) == AGAIN and why(spread(0.9, 9), screening=True) == ""


def test_what_is_surely_below_the_best_never_meets_it_however_its_times_spread():
    assert why(spread(0.9, 10), beat=5.0, screening=True) == ""
    assert why(spread(0.9, 16), beat=5.0, screening=True) == BELOW
    assert why(spread(0.9, 14), beat=5.0, screening=True, elapsed_s=0.5) == BELOW


def test_a_side_alone_is_measured_to_the_second_look():
    for pairs, said in ((16, ""), (31, ""), (32, PRECISE)):
        assert why_enough([1.0] * pairs, None, beat=None, elapsed_s=0.0, budget_s=8.0) == said


@pytest.mark.parametrize(
    ("rival", "said"),
    [
        ([2.0] * 16, DECIDED),
        ([0.5] * 16, DECIDED),
        ([1.0] * 16, DECIDED),
        ([1.0, 1.2] * 8, ""),
        ([2.0] * 10, ""),
        ([0.8, 1.0] * 5, NO_WIN),
        ([0.8, 1.009] * 8, NO_WIN),
        ([0.8, 1.02] * 5, ""),
    ],
)
def test_beside_the_best_so_far_it_ends_when_that_is_decided_or_no_win_is_left(rival, said):
    assert why([3.0] * len(rival), rival, elapsed_s=1.9) == said
    assert why([3.0] * len(rival), rival, elapsed_s=2.0) == (said or TIME)


def test_no_more_than_a_bar_is_told_by_all_but_the_largest_of_ten():
    assert cannot_exceed([1.0] * 9 + [9.0], [1.0] * 10, 1.0)
    assert not cannot_exceed([1.0] * 8 + [9.0] * 2, [1.0] * 10, 1.0)


# -- how often it errs --


def outcomes(effect: float, noise: float, count: int, *, heavy: bool = False) -> tuple[float, float]:
    """Share of `count` races of a kernel so much faster than the best that are called won; pairs of each, on average.

    Ratios are log-normal, or with `heavy` tails. The same numbers every time.
    """
    rng = numpy.random.default_rng(11)
    wins = pairs = 0
    for _ in range(count):
        drawn = rng.standard_t(3, LOOKS[-1]) if heavy else rng.standard_normal(LOOKS[-1])
        rival = MINE * effect * numpy.exp(noise * drawn)
        mine = [MINE] * LOOKS[-1]
        for n in sorted({*CHECKS, *LOOKS}):
            if why_enough(mine[:n], mine[:n], rival[:n], beat=1.0, elapsed_s=0.0, budget_s=8.0):
                break
        wins += paired_speedup(rival[:n], mine[:n]).call is SpeedCall.FASTER
        pairs += n
    return wins / count, pairs / count


@pytest.mark.parametrize("noise", [0.003, 0.02, 0.1])
@pytest.mark.parametrize("heavy", [False, True])
def test_a_kernel_hardly_ever_beats_itself(noise, heavy):
    wins, _ = outcomes(1.0, noise, 700, heavy=heavy)
    assert wins <= 0.005


def test_equal_kernels_are_given_up_early_and_wins_are_kept():
    assert outcomes(1.0, 0.02, 300)[1] < 60, "an interval within one per cent either way takes 140"
    assert outcomes(0.97, 0.02, 300)[1] < 12
    wins, pairs = outcomes(1.03, 0.02, 300)
    assert wins > 0.98 and pairs < 45


def test_a_check_makes_no_win():
    rng = numpy.random.default_rng(5)
    for _ in range(500):
        rival = list(MINE * numpy.exp(0.03 * rng.standard_normal(10)))
        if cannot_exceed(rival, [MINE] * 10, 1.01):
            assert paired_speedup(rival, [MINE] * 10).call is not SpeedCall.FASTER


def part(mine: list[float], eager: list[float], rival: list[float] | None = None, **given: Any) -> str:
    return why_enough(mine, eager, rival, **({"beat": 2.0, "elapsed_s": 0.0, "budget_s": 8.0, "part": True} | given))


def test_a_part_of_a_mean_is_measured_until_it_is_known_whoever_wins():
    steady, wild = [100.0] * 16, [90.0, 110.0] * 8
    assert part(steady, steady) == PRECISE
    assert part(steady, steady, [50.0] * 16) == PRECISE, "slower than the best, and known"
    assert part(steady, wild) == "" == part(steady, steady, wild), "either ratio counts"
    assert part(steady[:10], steady[:10]) == "", "at looks only"
    assert part(steady, wild, elapsed_s=RIVAL_S) == TIME


def test_the_evaluated_case_gives_up_for_all_what_is_surely_slower_there():
    steady, wild, faster = [100.0] * 10, [90.0, 110.0] * 5, [50.0] * 10
    assert part(steady, wild, faster, gate=True) == NO_WIN
    assert part(steady, wild, faster) == "", "in another case it goes on"
    assert part(steady, wild, wild, gate=True) == ""
    assert part(steady, wild, gate=True) == ""
