"""Levenberg and Marquardt's method (SIAM J. Appl. Math. 11, 1963): the least sum of squares without derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
STEP = 1e-3  # of the differences that stand for derivatives
HARDEST = 1e8  # damping at which no step helps any more


def least_squares(
    errors: Callable[[Sequence[float]], Sequence[float]],
    start: Sequence[float],
    *,
    most: int = 60,
    tolerance: float = 1e-7,
) -> list[float]:
    """Where the sum of squared `errors` is least near `start`: until a step gains less than `tolerance` of it.

    At most `most` steps, each of them one call of `errors` a coordinate and a few more. Deterministic.
    """
    at = np.array(start, dtype=np.float64)
    found = np.array(errors(at.tolist()))
    damping = 1e-3
    for _ in range(most):
        slopes = np.stack([_slope(errors, at, found, axis) for axis in range(at.size)], axis=1)
        squares, downhill = slopes.T @ slopes, slopes.T @ found
        gained = 0.0
        while damping < HARDEST:
            damped = squares + damping * np.diag(np.diag(squares) + 1e-12)
            tried = at - np.linalg.solve(damped, downhill)
            then = np.array(errors(tried.tolist()))
            gained = float(found @ found - then @ then)
            if gained > 0:
                at, found, damping = tried, then, max(damping / 5, 1e-7)
                break
            damping *= 4
        if gained <= tolerance * float(found @ found):
            break
    return [float(value) for value in at]


def _slope(errors: Callable[[Sequence[float]], Sequence[float]], at: Vector, found: Vector, axis: int) -> Vector:
    beside = at.copy()
    beside[axis] += STEP
    return (np.array(errors(beside.tolist())) - found) / STEP
