"""The fit finds the constants behind times; its error is of problems that it never saw."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import pytest

from judge.bench.interpreting.calibration import Constants
from tests.benchmarks.calibration.errors import error_of, rank_correlation, spearman
from tests.benchmarks.calibration.fitting import Residual, fit, left_out, paired, residuals
from tests.benchmarks.calibration.least_squares import least_squares
from tests.benchmarks.calibration.outcome import calibrate, table
from tests.benchmarks.calibration_makers import H200, TRUE, corpus, counted, launch, library, timed


def test_least_squares_walk_down_a_bent_valley() -> None:
    def valley(at):
        return [1 - at[0], 10 * (at[1] - at[0] ** 2)]

    assert least_squares(valley, [-1.2, 1.0], most=200) == pytest.approx([1.0, 1.0], abs=1e-3)


def test_the_fit_recovers_the_constants_behind_exact_times() -> None:
    found = fit(corpus(), H200)
    assert found.resident == TRUE.resident
    for name, value in asdict(TRUE).items():
        assert getattr(found, name) == pytest.approx(value, rel=0.15), name


def test_the_same_times_give_the_same_constants() -> None:
    pairs = corpus(noise=0.1)
    assert fit(pairs, H200, TRUE) == fit(pairs, H200, TRUE)


def test_known_noise_is_the_error_that_is_told() -> None:
    found = residuals(corpus(noise=0.2, problems=100), H200, TRUE)
    error = error_of(value for row in found for value in (row.candidate, row.eager))
    assert math.log(error.median) == pytest.approx(0.674 * 0.2, rel=0.15)
    assert math.log(error.ninety) == pytest.approx(1.645 * 0.2, rel=0.15)
    of_ratio = error_of(row.speedup for row in found)
    assert math.log(of_ratio.ninety) == pytest.approx(1.645 * 0.2 * math.sqrt(2), rel=0.15)


def test_cross_validation_never_shows_the_fit_what_it_is_judged_by() -> None:
    pairs = corpus()
    seen: list[frozenset[str]] = []

    def fitter(others, target, start):
        seen.append(frozenset(pair.problem for pair in others))
        return replace(start, launch_us=float(len(seen)))

    rows = left_out(pairs, H200, TRUE, fitter)
    every = {pair.problem for pair in pairs}
    assert [every - shown for shown in seen] == [{problem} for problem in sorted(every)]
    assert sorted(row.id for row in rows) == [pair.traffic.id for pair in pairs]
    judged = {row.problem: row.modelled_us for row in rows}
    alone = residuals([pairs[-1]], H200, replace(TRUE, launch_us=float(sorted(every).index(pairs[-1].problem) + 1)))
    assert judged[pairs[-1].problem] == alone[0].modelled_us


def test_a_problem_that_pulls_the_fit_its_way_is_further_off_when_left_out() -> None:
    pairs = corpus(problems=4)
    odd = counted("odd", 0, [launch("matrix", 3.0)], [library("mul", 1e-5)])
    strange = paired([odd], [timed(odd, 4000.0, 4.0)])
    together = [*pairs, *strange]
    whole = fit(together, H200)
    fitted = residuals(strange, H200, whole)[0]
    unseen = next(row for row in left_out(together, H200, whole) if row.problem == "odd")
    assert abs(unseen.candidate) > abs(fitted.candidate) + 0.1


def test_a_calibration_tells_where_it_comes_from() -> None:
    pairs = corpus(noise=0.1, problems=6)
    found = calibrate([pair.traffic for pair in pairs], [pair.times for pair in pairs])
    made = found.calibration
    assert (made.arch, made.gpu, made.points, made.problems, made.kernels) == ("sm_90", "NVIDIA H200", 18, 6, 18)
    assert made.speedup == error_of(row.speedup for row in found.unseen)
    assert 1.0 < made.time.median < made.time.ninety < 2.0
    assert any("left out" in line for line in table(found))


def test_times_of_two_gpus_are_not_mixed() -> None:
    pairs = corpus(problems=2)
    times = [pair.times for pair in pairs]
    with pytest.raises(ValueError, match="several GPUs"):
        calibrate([pair.traffic for pair in pairs], [*times[1:], replace(times[0], gpu="NVIDIA A40", arch="sm_86")])


def test_only_the_very_same_work_is_compared() -> None:
    [pair, *_] = corpus(problems=1)
    with pytest.raises(ValueError, match="both counted and measured"):
        paired([pair.traffic], [replace(pair.times, digest="another text")])


def test_half_and_nine_of_ten() -> None:
    """The smallest size that the share does not exceed: one that was seen, never a mean of two."""
    found = error_of(math.log(size) for size in range(1, 11))
    assert (found.median, found.ninety) == pytest.approx((5.0, 9.0), rel=1e-12)
    assert error_of([math.log(2), -math.log(4)]).ninety == pytest.approx(4.0)
    with pytest.raises(ValueError, match="nothing"):
        error_of([])


def test_order_is_judged_within_a_problem_and_a_size() -> None:
    def row(name: str, modelled: float, measured: float) -> Residual:
        return Residual(name, name[0], 0.0, 0.0, modelled, measured)

    right = [row("a1@large", 1, 10), row("a2@large", 2, 20), row("a3@large", 3, 30)]
    wrong = [row("b1@large", 3, 10), row("b2@large", 2, 20), row("b3@large", 1, 30)]
    assert rank_correlation(right) == pytest.approx(1.0)
    assert rank_correlation([*right, *wrong, row("c1@large", 1, 1)]) == pytest.approx(0.0)
    assert rank_correlation(right[:2]) is None
    assert spearman([1, 1, 1], [1, 2, 3]) is None and spearman([1, 2, 2, 4], [1, 2, 2, 4]) == pytest.approx(1.0)


def test_spearman_shares_ranks_among_ties() -> None:
    """Ranks 1, 2.5, 2.5, 4 and 4, 1, 2.5, 2.5, less their mean of 2.5."""
    one, other = [1, 2, 2, 4], [9, 1, 3, 3]
    ranks = ([-1.5, 0.0, 0.0, 1.5], [1.5, -1.5, 0.0, 0.0])
    by_hand = sum(a * b for a, b in zip(*ranks, strict=True)) / math.prod(math.hypot(*side) for side in ranks)
    assert spearman(one, other) == pytest.approx(by_hand, abs=1e-12)


def test_constants_are_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        Constants(dram=0.0)
