"""Which of several correct kernels is the best: one rule for pools, bests, reports, exports and charts.

Two places say it in their own language: `BEST_FIRST` of `search.selectors` in SQL, `outranks` of `static/js/store.js`.
"""

from __future__ import annotations


def rank(speedup: float | None, number: int) -> tuple[float, int]:
    """Key to compare by: the faster kernel ranks higher, of equally fast ones that of the lower node number.

    One that nobody has timed ranks below all that were. The order in which nodes were told plays no part.
    """
    return (speedup or 0.0, -number)
