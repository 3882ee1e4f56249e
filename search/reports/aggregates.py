"""The publication's aggregates over problems (AdaExplore, arXiv 2604.16625), medians, and their intervals. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from judge.values import Basis
from memory.prompting.lift import wilson
from search.reports.values import BEST, Figure, Score

CAP = 10.0  # speedups count as at most this in means
FLOOR = 0.1  # what a failure counts as in the geometric mean
FAST = (0.5, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0)
SEED = 20260422
RESAMPLES = 2000
LEVEL = 0.95

Reduce = Callable[[np.ndarray], np.ndarray]  # over the last axis


def _mean(values: np.ndarray) -> np.ndarray:
    return np.asarray(values.mean(axis=-1))


def _geometric(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(values.mean(axis=-1)))


def _median(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.median(values, axis=-1))


def figures(problems: Sequence[Sequence[Score]], *, rule: str, basis: Basis) -> tuple[tuple[Figure, ...], int]:
    """(aggregates, problems whose speedup is unknown). One row of scores per problem, one score per search of it.

    speedup: mean of min(s, 10), failures as 0. gm10: geometric mean of s within [0.1, 10], failures as 0.1.
    median: of s, failures as 0. fast_p: share of problems with s strictly above p. correct: share with a right kernel.
    """
    correct = _column(problems, rule, lambda score: float(score.correct))
    capped = _column(problems, rule, _known(lambda speedup: min(speedup, CAP)))
    found = [
        _figure("correct", "correct", correct, _mean, basis, share=True),
        _figure("speedup", "speedup, mean of min(s, 10)", capped, _mean, basis),
        _figure("gm10", "GM(10), geometric mean", _column(problems, rule, _known(_log)), _geometric, basis),
        _figure("median", "median speedup", _column(problems, rule, _known(float)), _median, basis),
    ]
    for limit in FAST:
        above = _column(problems, rule, _known(_above(limit)))
        found.append(_figure(f"fast_{limit:g}", f"Fast@{limit:g}", above, _mean, basis, share=True))
    return tuple(found), sum(value is None for value in capped)


def _log(speedup: float) -> float:
    return math.log(min(max(speedup, FLOOR), CAP))


def _above(limit: float) -> Callable[[float], float]:
    return lambda speedup: float(speedup > limit)


def _known(count: Callable[[float], float]) -> Callable[[Score], float | None]:
    return lambda score: None if score.speedup is None else count(score.speedup)


def _column(
    problems: Sequence[Sequence[Score]], rule: str, count: Callable[[Score], float | None]
) -> list[float | None]:
    """What each problem counts for: its best search alone, or the mean over its searches. None where unknown."""
    return [count(_best(scores)) if rule == BEST else _mean_of(count(score) for score in scores) for scores in problems]


def _best(scores: Sequence[Score]) -> Score:
    """The fastest search; a correct one whose speed nobody knows stands above a failure only."""
    return max(scores, key=lambda score: (score.correct, score.speedup is not None, score.speedup or 0.0))


def _mean_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _figure(
    metric: str, label: str, column: Sequence[float | None], reduce: Reduce, basis: Basis, *, share: bool = False
) -> Figure:
    values = np.array([value for value in column if value is not None], dtype=float)
    if not len(values):
        return Figure(metric, label, None, None, None, 0, basis, share)
    low, high = share_interval(float(values.mean()), len(values)) if share else interval(values, reduce)
    return Figure(metric, label, float(reduce(values)), low, high, len(values), basis, share)


def interval(values: np.ndarray, reduce: Reduce) -> tuple[float | None, float | None]:
    """Percentile bootstrap over problems at 95 %, the same resamples every time; Nones below two problems."""
    if len(values) < 2:
        return None, None
    from scipy import stats  # takes a second to import, which a web process need not pay at its start

    found = stats.bootstrap(
        (values,),
        lambda resampled, axis: reduce(resampled),
        n_resamples=RESAMPLES,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(SEED),
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def share_interval(share: float, count: int) -> tuple[float | None, float | None]:
    """Wilson's score interval at 95 %: three of three problems do not make 100 % certain. Nones below two problems."""
    return wilson(share * count, count) if count >= 2 else (None, None)


def shares_above(speedups: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """Fast@p as a function of p: from p = 0, the places where it falls and the share left right of each."""
    total = len(speedups)
    points = [(0.0, sum(speedup > 0 for speedup in speedups) / total)] if total else []
    for limit in sorted({speedup for speedup in speedups if speedup > 0}):
        points.append((limit, sum(speedup > limit for speedup in speedups) / total))
    return tuple(points)


def progress(steps: Sequence[Sequence[tuple[int, float]]], *, last: int) -> tuple[tuple[int, float], ...]:
    """(steps told, mean over problems of min(best so far, 10)) wherever it rises. `steps` holds (order, speedup)."""
    bests = [0.0] * len(steps)
    rises = sorted((order, problem, speedup) for problem, rows in enumerate(steps) for order, speedup in rows)
    points: dict[int, float] = {0: 0.0}
    for order, problem, speedup in rises:
        if min(speedup, CAP) > bests[problem]:
            bests[problem] = min(speedup, CAP)
            points[order] = sum(bests) / len(bests)
    if steps and last:
        points[last] = sum(bests) / len(bests)
    return tuple(sorted(points.items()))
