"""Nelder and Mead's downhill simplex (Computer Journal 7, 1965): a minimum of few numbers without derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Point = list[float]


def minimum(
    loss: Callable[[Sequence[float]], float],
    start: Sequence[float],
    *,
    step: float = 0.3,
    tolerance: float = 1e-6,
    most: int = 2000,
) -> Point:
    """Where `loss` is least near `start`: until the simplex's losses differ by less than `tolerance`.

    The same arguments always give the same point. At most about `most` calls of `loss`.
    """
    corners = [list(start)]
    for axis in range(len(start)):
        corners.append([value + (step if number == axis else 0.0) for number, value in enumerate(start)])
    simplex = sorted((loss(corner), corner) for corner in corners)
    calls = len(simplex)
    while calls < most and simplex[-1][0] - simplex[0][0] > tolerance:
        worst_loss, worst = simplex[-1]
        centre = [sum(axis) / len(start) for axis in zip(*(corner for _, corner in simplex[:-1]), strict=True)]
        tried = _towards(loss, centre, worst, -1.0)
        calls += 1
        if tried[0] < simplex[0][0]:
            further = _towards(loss, centre, worst, -2.0)
            calls += 1
            tried = min(tried, further)
        elif tried[0] >= simplex[-2][0]:
            inside = _towards(loss, centre, worst if worst_loss <= tried[0] else tried[1], 0.5)
            calls += 1
            if inside[0] >= min(worst_loss, tried[0]):
                best = simplex[0][1]
                simplex = sorted([simplex[0], *(_towards(loss, best, corner, 0.5) for _, corner in simplex[1:])])
                calls += len(start)
                continue
            tried = inside
        simplex[-1] = tried
        simplex.sort()
    return simplex[0][1]


def _towards(
    loss: Callable[[Sequence[float]], float], centre: Point, corner: Point, share: float
) -> tuple[float, Point]:
    """The point `share` of the way from `centre` to `corner`, with its loss."""
    point = [middle + share * (value - middle) for middle, value in zip(centre, corner, strict=True)]
    return loss(point), point
