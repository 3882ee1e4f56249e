"""Which of several correct kernels is the best, and whether it may be called so: one rule for pools, bests, reports,
exports and charts.

Two places repeat it in their own language: `BEST_FIRST` of `search.records.queries` in SQL, and `outranks` of
`static/js/store.js`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Over(NamedTuple):
    """The speedup over one baseline. `low` is the lower end of its interval; None where an interval decides nothing: a
    model's range is one error for all kernels, a reported figure has none."""

    value: float
    low: float | None = None


class Standing(NamedTuple):
    """Node numbers. `best` is the highest ranked kernel that beat PyTorch; where none did, `closest` is the highest
    ranked one. At most one of them is set."""

    best: int | None = None
    closest: int | None = None

    @property
    def leader(self) -> int | None:
        """Whichever there is."""
        return self.closest if self.best is None else self.best


def rank(speedup: float | None, number: int) -> tuple[float, int]:
    """Key to compare by: the faster kernel ranks higher, of equally fast ones that of the lower node number.

    One that nobody has timed ranks below all that were. The order in which nodes were told plays no part.
    """
    return (speedup or 0.0, -number)


def beats(baselines: Iterable[Over]) -> bool:
    """Whether a kernel is faster than the fastest baseline it was measured against: its whole interval lies above 1
    over each of them. False without any."""
    over = [one.value if one.low is None else one.low for one in baselines]
    return bool(over) and min(over) > 1


def standing(kernels: Iterable[tuple[float | None, int, bool]]) -> Standing:
    """Of (speedup over eager, node number, whether it beat PyTorch), for kernels that may be a best."""
    found = list(kernels)
    won = [kernel for kernel in found if kernel[2]]
    if not found:
        return Standing()
    number = max(won or found, key=lambda kernel: rank(kernel[0], kernel[1]))[1]
    return Standing(best=number) if won else Standing(closest=number)
