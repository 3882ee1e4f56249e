"""Fits the time model's constants to what a GPU took, and tells the error of problems that were not fitted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from judge.bench.calibration import Constants
from judge.bench.targets import Target
from judge.bench.timemodel import total_us
from judge.calibration.records import Times, Traffic
from judge.calibration.simplex import minimum

RESIDENT = (0.0, 0.25, 0.5, 1.0)  # tried one by one: a threshold has no slope
BEND = 0.3  # beyond so large a logarithm an error weighs by its size, no more by its square
PRIOR = 1e-4  # keeps what the data says nothing about where it was


@dataclass(frozen=True)
class Pair:
    """One point, counted and measured."""

    traffic: Traffic
    times: Times

    @property
    def problem(self) -> str:
        return self.traffic.problem


@dataclass(frozen=True)
class Residual:
    """Logarithms of modelled over measured, of one point."""

    id: str
    problem: str
    candidate: float
    eager: float
    modelled_us: float  # of the candidate
    measured_us: float

    @property
    def speedup(self) -> float:
        return self.eager - self.candidate


def paired(traffic: Iterable[Traffic], times: Iterable[Times]) -> list[Pair]:
    """What was both counted and measured, the very same work. Raises ValueError when that is nothing."""
    counted = {(row.id, row.digest): row for row in traffic}
    found = [Pair(counted[row.id, row.digest], row) for row in times if (row.id, row.digest) in counted]
    if not found:
        raise ValueError("no point was both counted and measured: give the files that `count` and `measure` wrote")
    return sorted(found, key=lambda pair: pair.traffic.id)


def residuals(pairs: Iterable[Pair], target: Target, constants: Constants) -> list[Residual]:
    return [_residual(pair, target, constants) for pair in pairs]


def _residual(pair: Pair, target: Target, constants: Constants) -> Residual:
    modelled = total_us(pair.traffic.candidate, target, constants)
    eager = total_us(pair.traffic.eager, target, constants)
    return Residual(
        pair.traffic.id,
        pair.problem,
        math.log(modelled / pair.times.candidate_us),
        math.log(eager / pair.times.eager_us),
        modelled,
        pair.times.candidate_us,
    )


def fit(pairs: Sequence[Pair], target: Target, start: Constants | None = None) -> Constants:
    """The constants with the least error over `pairs`, every problem weighing the same. Deterministic.

    With `start` only its neighbourhood is searched, and its `resident` kept.
    """
    if start is not None:
        return _fitted(pairs, target, start, step=0.1, most=400)[1]
    tried = []
    for resident in RESIDENT:
        begin = Constants(**{**asdict(Constants()), "resident": resident})
        tried.append(_fitted(pairs, target, begin, step=0.4, most=1500))
    return min(tried, key=lambda row: row[0])[1]


def _fitted(
    pairs: Sequence[Pair], target: Target, start: Constants, *, step: float, most: int
) -> tuple[float, Constants]:
    given = asdict(start)
    names = [name for name in given if name != "resident"]
    usual = asdict(Constants())
    weights = _weights(pairs)

    def constants(point: Sequence[float]) -> Constants:
        return Constants(**{**given, **{name: math.exp(value) for name, value in zip(names, point, strict=True)}})

    def loss(point: Sequence[float]) -> float:
        away = sum((value - math.log(usual[name])) ** 2 for name, value in zip(names, point, strict=True))
        return PRIOR * away + _loss(residuals(pairs, target, constants(point)), weights)

    best = minimum(loss, [math.log(given[name]) for name in names], step=step, most=most)
    return loss(best), constants(best)


def _weights(pairs: Iterable[Pair]) -> Mapping[str, float]:
    """Of each point by its problem: a problem with many kernels has no more to say than one with few."""
    counts = Counter(pair.problem for pair in pairs)
    return {problem: 1.0 / (count * len(counts)) for problem, count in counts.items()}


def _loss(rows: Iterable[Residual], weights: Mapping[str, float]) -> float:
    return sum(weights[row.problem] * (_bent(row.candidate) + _bent(row.eager) + _bent(row.speedup)) for row in rows)


def _bent(error: float) -> float:
    """Huber's loss: a square near zero, straight beyond BEND."""
    size = abs(error)
    return size * size / 2 if size <= BEND else BEND * (size - BEND / 2)


def left_out(
    pairs: Sequence[Pair],
    target: Target,
    whole: Constants,
    fitter: Callable[[Sequence[Pair], Target, Constants], Constants] = fit,
) -> list[Residual]:
    """Errors of each problem by constants fitted without any of its points, starting from `whole`, the fit of all."""
    found: list[Residual] = []
    for problem in sorted({pair.problem for pair in pairs}):
        others = [pair for pair in pairs if pair.problem != problem]
        theirs = [pair for pair in pairs if pair.problem == problem]
        found += residuals(theirs, target, fitter(others, target, whole) if others else whole)
    return found
