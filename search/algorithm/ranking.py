"""What a kernel is worth: its reward, its rank among others, and which one is called the best. One rule for pools,
bests, reports, exports and charts. Whether a kernel beat PyTorch says `judge.evaluations.beside.won`.

Two places repeat the rank in their own language: `BEST_FIRST` of `search.records.queries` in SQL, and `outranks` of
`static/js/store.js`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple


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

    One without a time ranks below all others. The completion order plays no part.
    """
    return (speedup or 0.0, -number)


def standing(kernels: Iterable[tuple[float | None, int, bool]]) -> Standing:
    """Of (speedup over eager, node number, whether it beat PyTorch), for kernels that may be a best."""
    found = list(kernels)
    won = [kernel for kernel in found if kernel[2]]
    if not found:
        return Standing()
    number = max(won or found, key=lambda kernel: rank(kernel[0], kernel[1]))[1]
    return Standing(best=number) if won else Standing(closest=number)


LOADS = 0.05
LOWEST, HIGHEST = 0.1, 10.0
FLOOR, SPREAD = 0.4, 1.2  # a correct kernel is worth 0.4 to 1.6
LOG_SPAN = 10.0  # a kernel so many times slower than the best of its run is worth the least


def reward(*, loads: bool, correct: bool, speedup: float | None) -> float:
    """0 if the source does not load; 0.05 if it loads but is wrong or crashes; else 0.4 to 1.6 by clipped speedup.

    `speedup` is reference time / candidate time; a correct kernel without a time counts as the slowest.
    Source: AdaExplore section 3, `clip` at 0.1 and 10.
    """
    if not loads:
        return 0.0
    if not correct:
        return LOADS
    clipped = min(max(speedup or LOWEST, LOWEST), HIGHEST)
    return FLOOR + SPREAD * (clipped - LOWEST) / 9.9


def log_reward(speedup: float, best: float) -> float:
    """0.4 to 1.6 for a correct kernel: 1.6 as fast as `best`, 0.4 when `LOG_SPAN` times slower or more, even steps of
    a factor between. `best` is the highest speedup of the run so far, so a new best lowers all others alike.

    A kernel without a time, speedup 0, is worth the least. Raises ValueError when it is faster than the best.
    """
    if speedup > best:
        raise ValueError(f"speedup {speedup:g} is above the best, {best:g}")
    if speedup * LOG_SPAN <= best:
        return FLOOR
    return FLOOR + SPREAD * max(0.0, 1 + math.log(speedup / best) / math.log(LOG_SPAN))
