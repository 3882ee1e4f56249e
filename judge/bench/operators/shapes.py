"""From sizes in and sizes out to a rule: where each size of the result comes from. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Shape = tuple[int, ...]
Rule = dict[str, Any]  # {"axis": i, "mul": m, "div": d, "add": a}, {"new": True} or {"size": n}

BASE: dict[int, Shape] = {2: (8, 16), 3: (4, 16, 20), 4: (4, 8, 12, 20)}
STEPS = (4, 8, 16)
NEWS = (24, 40)
_FORMS = [(mul, div) for div in (1, 2, 3, 4) for mul in (1, 2, 3, 4) if mul == 1 or div == 1]


class NoRule(ValueError):
    """The sizes follow no rule of the kind that is known here."""


def rules(shape_of: Callable[[Shape, int], Shape], rank: int) -> tuple[list[Rule], list[int]]:
    """(a rule for each axis of the result, of what each input size must be a multiple).

    `shape_of(shape, new)` runs the operator; it raises NoRule where that does not go. Raises NoRule.
    """
    base = BASE[rank]
    first = shape_of(base, NEWS[0])
    origins: list[Rule] = [{"size": size} for size in first]
    _sources(origins, first, shape_of(base, NEWS[1]), {"new": True})
    for axis in range(rank):
        results = [shape_of(_grown(base, axis, step), NEWS[0]) for step in STEPS]
        for place, size in enumerate(first):
            if any(len(one) != len(first) for one in results):
                raise NoRule("the number of axes depends on a size")
            points = [(base[axis], size)]
            points += [(base[axis] + step, one[place]) for step, one in zip(STEPS, results, strict=True)]
            if any(found != size for _, found in points):
                if "size" not in origins[place]:
                    raise NoRule("a size of the result depends on several of the input")
                origins[place] = {"axis": axis, **_fitted(points)}
    return origins, [_multiple(shape_of, base, axis) for axis in range(rank)]


def _sources(origins: list[Rule], first: Shape, other: Shape, rule: Rule) -> None:
    if len(first) != len(other):
        raise NoRule("the number of axes depends on an argument")
    for place, (one, two) in enumerate(zip(first, other, strict=True)):
        if one != two:
            origins[place] = dict(rule)


def _grown(base: Shape, axis: int, step: int) -> Shape:
    return (*base[:axis], base[axis] + step, *base[axis + 1 :])


def _fitted(points: list[tuple[int, int]]) -> Rule:
    """size * mul // div + add, through all points. Raises NoRule."""
    for mul, div in _FORMS:
        add = points[0][1] - points[0][0] * mul // div
        if all(size * mul // div + add == found for size, found in points):
            return {"mul": mul, "div": div, "add": add}
    raise NoRule("a size of the result is no simple function of the input's")


def _multiple(shape_of: Callable[[Shape, int], Shape], base: Shape, axis: int) -> int:
    for multiple in (1, 2):
        try:
            shape_of(_grown(base, axis, multiple), NEWS[0])
        except NoRule:
            continue
        return multiple
    return 4
