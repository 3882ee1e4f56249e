"""The effect: paired shares with intervals that keep their level, and no effect where there is none."""

from __future__ import annotations

import math
import random

import pytest

from memory.adapt.effect import WINDOW, Arm, Outcome, curve_of, effect_of, mcnemar, mean_paired, paired, share


def outcomes(pairs, rules: int = 1) -> list[Outcome]:
    return [
        Outcome(place, f"t{place}", rules, Arm((shown,) * 3), Arm((control,) * 3))
        for place, (shown, control) in enumerate(pairs, start=1)
    ]


def test_without_pairs_nothing_is_claimed():
    effect = effect_of([], k=3)
    assert (effect.verdict, effect.first.value, effect.pass_1[0].value) == ("nothing to compare yet", None, None)
    assert curve_of(effect) is None


def test_equal_arms_show_no_effect():
    effect = effect_of(outcomes([(True, True)] * 20 + [(False, False)] * 20), k=3)
    assert effect.verdict == "no effect shown" and effect.first.value == 0.0
    assert effect.first.low < 0 < effect.first.high


def test_a_large_effect_is_shown_with_its_interval_and_its_direction():
    pairs = [(True, False)] * 20 + [(True, True)] * 10 + [(False, False)] * 10
    helps, harms = effect_of(outcomes(pairs), k=3), effect_of(outcomes([(b, a) for a, b in pairs]), k=3)
    assert helps.verdict == "memory helps" and harms.verdict == "memory harms"
    assert helps.first.value == 0.5 and 0 < helps.first.low < 0.5 < helps.first.high < 1
    assert (helps.first.only_with, helps.first.only_without) == (20, 0) and helps.first.p < 1e-5
    assert helps.best_k.value == helps.valid_k.value == 0.5


def test_a_small_effect_on_few_tasks_is_not_claimed():
    effect = effect_of(outcomes([(True, False)] * 3 + [(True, True)] * 5), k=1)
    assert effect.first.value == 0.375 and effect.verdict == "no effect shown"


def test_attempts_that_were_nobody_s_fault_leave_their_pair_out():
    row = Outcome(1, "a", 0, Arm((None, True)), Arm((True, True)))
    effect = effect_of([row, *outcomes([(True, True)])], k=2)
    assert (effect.tasks, effect.left_out, effect.first.n, effect.valid_k.n) == (2, 1, 1, 1)


def test_a_run_that_is_not_at_its_end_claims_nothing_however_it_looks():
    pairs = outcomes([(True, False)] * 20)
    early = effect_of(pairs, k=3, final=False)
    assert early.verdict == "not decided before its end" and early.first.low > 0
    assert effect_of([], k=3, final=False).verdict == "nothing to compare yet"
    assert effect_of(pairs, k=3).verdict == "memory helps"


def test_looking_after_every_task_would_find_effects_of_nothing():
    """Why nothing is claimed before the end: far more than one in twenty runs would claim an effect."""
    rng, often, once, runs = random.Random(7), 0, 0, 300
    for _ in range(runs):
        drawn = rng.choices([(True, False), (False, True), (True, True)], [0.25, 0.25, 0.5], k=60)
        often += any(paired(drawn[:n]).verdict.startswith("memory") for n in range(5, 61))
        once += paired(drawn).verdict.startswith("memory")
    assert often / runs > 0.12 and once / runs < 0.08


def test_only_tasks_with_rules_in_force_are_in_the_second_row():
    rows = outcomes([(True, False)] * 4, rules=0) + [
        Outcome(place, "x", 2, Arm((True,)), Arm((False,))) for place in range(5, 8)
    ]
    assert effect_of(rows, k=1).first_with_rules.n == 3


def test_the_curve_is_over_the_last_tasks_and_holds_its_points():
    effect = effect_of(outcomes([(False, False)] * 10 + [(True, False)] * 30), k=1)
    last = effect.curve[-1]
    assert (last.n, last.shown.value, last.control.value) == (WINDOW, 1.0, 0.0)
    assert all(point.shown.low <= point.shown.value <= point.shown.high for point in effect.curve)
    curve = curve_of(effect)
    assert "ends at 100% with memory and 0% without" in curve.says and len(curve.lines) == 2


@pytest.mark.parametrize(("n", "up", "down"), [(20, 0.1, 0.1), (30, 0.4, 0.1), (60, 0.3, 0.05), (60, 0.02, 0.02)])
def test_the_interval_of_a_paired_difference_holds_the_truth_in_most_samples(n, up, down):
    rng, held, samples = random.Random(5), 0, 1000
    for _ in range(samples):
        drawn = rng.choices([(True, False), (False, True), (True, True)], [up, down, 1 - up - down], k=n)
        found = paired(drawn)
        held += found.low <= up - down <= found.high
    assert held / samples >= 0.93


def test_the_interval_of_a_share_and_the_exact_test_are_the_textbook_s():
    half = share(5, 10)
    assert (round(half.low, 3), round(half.high, 3)) == (0.237, 0.763)
    assert share(0, 0).value is None and share(0, 12).low == 0.0
    assert mcnemar(6, 0) == pytest.approx(2 / 64) and mcnemar(3, 3) == 1.0


def test_the_exact_test_is_the_tail_of_a_fair_coin():
    for n in range(1, 40):
        for more in range(n + 1):
            tail = sum(math.comb(n, number) for number in range(min(more, n - more) + 1))
            assert mcnemar(more, n - more) == pytest.approx(min(2 * tail / 2**n, 1.0), abs=1e-12)
    assert mcnemar(0, 0) == 1.0


@pytest.mark.parametrize("n", [5, 40, 200])
def test_the_bootstrap_of_a_mean_is_that_of_resampled_pairs(n):
    """Against another stream of resamples: both are within 2000 resamples' error of a quantile of each other."""
    rng = random.Random(n)
    values = [rng.choice([-1 / 3, 0.0, 1 / 3, 2 / 3]) for _ in range(n)]
    means = sorted(sum(rng.choices(values, k=n)) / n for _ in range(2000))
    found, spread = mean_paired(values), 0.5 / math.sqrt(n)
    assert (found.low, found.high) == pytest.approx((means[50], means[1949]), abs=0.25 * spread)
    assert found.value == pytest.approx(sum(values) / n)


def test_means_are_the_same_at_every_call_and_equal_pairs_still_have_doubt():
    values = [0.2, 0.4, 0.0, -0.2] * 5
    assert mean_paired(values) == mean_paired(values)
    still = mean_paired([0.0] * 30)
    assert (still.low, still.high) == (-0.1, 0.1) and still.verdict == "no effect shown"
