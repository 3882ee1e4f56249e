"""Where the validity curve lies: paths in a box of 100 by 100, ticks in per cent. Pure; a template draws the SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory.adapt.effect import Effect, Point, Share


@dataclass(frozen=True)
class Line:
    """One arm: `kind` is its CSS class, `path` its share, `band` its interval."""

    kind: str
    label: str
    path: str
    band: str


@dataclass(frozen=True)
class Mark:
    """A labelled place on an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Curve:
    """Both arms over the tasks, and one sentence for those who do not see them."""

    lines: tuple[Line, ...]
    x_marks: tuple[Mark, ...]
    y_marks: tuple[Mark, ...]
    says: str


def curve_of(effect: Effect) -> Curve | None:
    """None with fewer than two pairs: a point is no curve."""
    points = effect.curve
    if len(points) < 2:
        return None
    lines = (
        _line("control", "without memory", points, [point.control for point in points]),
        _line("shown", "with memory", points, [point.shown for point in points]),
    )
    first, last = points[0].place, points[-1].place
    x_marks = tuple(Mark(100.0 * part, str(round(first + part * (last - first)))) for part in (0.0, 0.5, 1.0))
    y_marks = tuple(Mark(round(100 * (1 - part), 1), f"{part:.0%}") for part in (0.0, 0.5, 1.0))
    shown, control = points[-1].shown.value or 0.0, points[-1].control.value or 0.0
    says = (
        f"Share of first attempts that pass over the last {points[-1].n} tasks: it ends at {shown:.0%} with memory and "
        f"{control:.0%} without."
    )
    return Curve(lines, x_marks, y_marks, says)


def _line(kind: str, label: str, points: Sequence[Point], shares: Sequence[Share]) -> Line:
    first, last = points[0].place, points[-1].place
    places = [100 * (point.place - first) / (last - first) for point in points]
    middle = [(x, one.value or 0.0) for x, one in zip(places, shares, strict=True)]
    low = [(x, one.low or 0.0) for x, one in zip(places, shares, strict=True)]
    high = [(x, one.high or 0.0) for x, one in zip(places, shares, strict=True)]
    return Line(kind, label, f"M{_path(middle)}", f"M{_path(high)}L{_path(low[::-1])}Z")


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "L".join(f"{x:.2f} {100 - 100 * share:.2f}" for x, share in points)
