"""What a told node is worth to the search. Source: AdaExplore section 3, `clip` at 0.1 and 10."""

from __future__ import annotations

LOADS = 0.05
LOWEST, HIGHEST = 0.1, 10.0


def reward(*, loads: bool, correct: bool, speedup: float | None) -> float:
    """0 if the source does not load; 0.05 if it loads but is wrong or crashes; else 0.4 to 1.6 by clipped speedup.

    `speedup` is reference time / candidate time; a correct kernel without a time counts as the slowest.
    """
    if not loads:
        return 0.0
    if not correct:
        return LOADS
    clipped = min(max(speedup or LOWEST, LOWEST), HIGHEST)
    return 0.4 + 1.2 * (clipped - LOWEST) / 9.9
