"""Residuals in the words of people: factors for half and for 9 of 10 kernels, and how well kernels are ordered."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from scipy import stats

from judge.bench.interpreting.calibration import Error
from tests.benchmarks.calibration.fitting import Residual

FEWEST = 3  # kernels that an order means something of


def error_of(logarithms: Iterable[float]) -> Error:
    """Median and 90th percentile of |log(modelled / measured)|, as factors. Raises ValueError for none."""
    sizes = [abs(value) for value in logarithms]
    if not sizes:
        raise ValueError("there is no error to tell of nothing")
    half, ninety = np.quantile(sizes, [0.5, 0.9], method="inverted_cdf")
    return Error(math.exp(half), math.exp(ninety))


def rank_correlation(rows: Iterable[Residual]) -> float | None:
    """Spearman's, of modelled and measured times of candidates of one problem at one size; the mean over all these.

    None when no problem has FEWEST candidates at one size.
    """
    groups: dict[tuple[str, str], list[Residual]] = {}
    for row in rows:
        groups.setdefault((row.problem, row.id.rpartition("@")[2]), []).append(row)
    found = [
        value
        for group in groups.values()
        if len(group) >= FEWEST
        and (value := spearman([row.modelled_us for row in group], [row.measured_us for row in group])) is not None
    ]
    return sum(found) / len(found) if found else None


def spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Correlation of the ranks, ties sharing theirs; None where one side does not vary."""
    if len(set(one)) == 1 or len(set(other)) == 1:
        return None
    return float(stats.spearmanr(one, other).statistic)
