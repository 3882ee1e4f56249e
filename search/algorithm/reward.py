"""What a told node is worth to the search: the publication's reward, and one that does not go blind above 10x."""

from __future__ import annotations

import math

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
