"""Residuals in the words of people: factors for half and for 9 of 10 kernels, and how well kernels are ordered."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from judge.bench.interpreting.calibration import Error
from judge.calibration.fitting import Residual

FEWEST = 3  # kernels that an order means something of


def error_of(logarithms: Iterable[float]) -> Error:
    """Median and 90th percentile of |log(modelled / measured)|, as factors. Raises ValueError for none."""
    sizes = sorted(abs(value) for value in logarithms)
    if not sizes:
        raise ValueError("there is no error to tell of nothing")
    return Error(math.exp(quantile(sizes, 0.5)), math.exp(quantile(sizes, 0.9)))


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the ordered values do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered) - 1e-9) - 1)]


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
    left, right = _ranks(one), _ranks(other)
    middle = (len(left) + 1) / 2
    spread = math.prod(math.sqrt(sum((rank - middle) ** 2 for rank in ranks)) for ranks in (left, right))
    if spread == 0:
        return None
    return sum((a - middle) * (b - middle) for a, b in zip(left, right, strict=True)) / spread


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [(ordered.index(value) + 1 + len(ordered) - ordered[::-1].index(value)) / 2 for value in values]
