"""Fits the time model's constants to what a GPU took, and tells the error of problems that were not fitted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from judge.bench.interpreting.calibration import Constants
from judge.bench.interpreting.targets import Target
from judge.bench.interpreting.timemodel import total_us
from tests.benchmarks.calibration.least_squares import least_squares
from tests.benchmarks.calibration.records import Times, Traffic

RESIDENT = (0.0, 0.25, 0.5, 1.0)  # tried one by one: a threshold has no slope
BEND = 0.3  # beyond so large a logarithm an error weighs by its size, no more by its square
PRIOR = 0.01  # keeps what the data says nothing about where it was


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
        return _fitted(pairs, target, start, most=8)[1]
    tried = []
    for resident in RESIDENT:
        begin = Constants(**{**asdict(Constants()), "resident": resident})
        tried.append(_fitted(pairs, target, begin, most=60))
    return min(tried, key=lambda row: row[0])[1]


def _fitted(pairs: Sequence[Pair], target: Target, start: Constants, *, most: int) -> tuple[float, Constants]:
    """(sum of squared errors, constants): all but `resident`, each by its logarithm, which keeps it positive."""
    given = asdict(start)
    names = [name for name in given if name != "resident"]
    usual = [math.log(asdict(Constants())[name]) for name in names]
    weights = _weights(pairs)

    def constants(point: Sequence[float]) -> Constants:
        return Constants(**{**given, **{name: math.exp(value) for name, value in zip(names, point, strict=True)}})

    def errors(point: Sequence[float]) -> list[float]:
        found = [PRIOR * (value - before) for value, before in zip(point, usual, strict=True)]
        for row in residuals(pairs, target, constants(point)):
            weight = weights[row.problem]
            found += [weight * _bent(error) for error in (row.candidate, row.eager, row.speedup)]
        return found

    best = least_squares(errors, [math.log(given[name]) for name in names], most=most)
    return sum(error * error for error in errors(best)), constants(best)


def _weights(pairs: Iterable[Pair]) -> Mapping[str, float]:
    """Of each point's errors: a problem with many kernels has no more to say than one with few."""
    counts = Counter(pair.problem for pair in pairs)
    return {problem: 1.0 / math.sqrt(count * len(counts)) for problem, count in counts.items()}


def _bent(error: float) -> float:
    """An error whose square is Huber's loss: it grows with the error near zero, with its root beyond BEND."""
    size = abs(error)
    return error if size <= BEND else math.copysign(math.sqrt(2 * BEND * size - BEND * BEND), error)


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
