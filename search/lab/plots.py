"""Where things lie in the pictures of a result, in per cent of width and height. Pure; templates draw the SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from search.lab.estimates import Estimate

MARGIN = 0.06  # of the range, above and below
FIRST_SHOWN = 0.1  # of the steps: what came before may leave the picture at its foot, or it would fill it


@dataclass(frozen=True)
class Scale:
    """A linear axis: `low` lies at 100 (the foot of a picture, or the far left when `flipped`), `high` at 0."""

    low: float
    high: float
    flipped: bool = False

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.5
        return round(100 * (share if self.flipped else 1 - share), 2)


def around(values: Sequence[float], *, flipped: bool = False) -> Scale:
    """The scale that holds all values with some room; of equal values, a range of a tenth."""
    low, high = min(values), max(values)
    room = (high - low) * MARGIN or 0.05
    return Scale(low - room, high + room, flipped)


@dataclass(frozen=True)
class CurvePlot:
    """One contender beside the baseline: SVG points for polylines and the polygon of the interval, 0 to 100 each way.

    `ends` are the values at the end: the contender's estimate and, where it is not the baseline itself, that one's.
    """

    contender: str
    line: str
    band: str
    other: str
    end: Estimate
    other_end: Estimate | None


def curve_scale(cells: Sequence[dict[str, Any]]) -> Scale:
    """The one scale of all curves of a space. Cells as in the result's document, at least one."""
    curves = [cell["curve"] for cell in cells]
    shown = [step >= FIRST_SHOWN * curves[0]["steps"][-1] for step in curves[0]["steps"]]
    edges = [
        (value, seen)
        for curve in curves
        for side in ("low", "high")
        for value, seen in zip(curve[side], shown, strict=True)
    ]
    return around([value for value, seen in edges if seen])


def curve_plots(cells: Sequence[dict[str, Any]], scale: Scale, baseline: str, last: str) -> tuple[CurvePlot, ...]:
    """Plots of one space with one number of workers, all on one scale."""
    base = next((cell for cell in cells if cell["contender"] == baseline), None)
    return tuple(_curve_plot(cell, base, scale, last) for cell in cells)


def _curve_plot(cell: dict[str, Any], base: dict[str, Any] | None, scale: Scale, last: str) -> CurvePlot:
    curve, other = cell["curve"], base if base is not None and base is not cell else None
    along = Scale(curve["steps"][0], curve["steps"][-1], flipped=True)
    edge = [*zip(curve["steps"], curve["high"], strict=True)]
    edge += [*zip(curve["steps"], curve["low"], strict=True)][::-1]
    return CurvePlot(
        contender=cell["contender"],
        line=_points(along, scale, [*zip(curve["steps"], curve["mean"], strict=True)]),
        band=_points(along, scale, edge),
        other=_points(along, scale, [*zip(curve["steps"], other["curve"]["mean"], strict=True)]) if other else "",
        end=Estimate.from_json(cell["figures"][last]),
        other_end=Estimate.from_json(other["figures"][last]) if other else None,
    )


def _points(along: Scale, up: Scale, pairs: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{along.at(x):g},{up.at(y):g}" for x, y in pairs)


@dataclass(frozen=True)
class Whisker:
    """An interval as a bar with its middle, in per cent of the width."""

    label: str
    low: float
    middle: float
    high: float
    found: Estimate


@dataclass(frozen=True)
class Sweep:
    """The differences of one contender for each number of workers, all on one axis; `zero` is no difference."""

    contender: str
    whiskers: tuple[Whisker, ...]
    zero: float


def sweeps(found: Sequence[tuple[str, Sequence[tuple[int, Estimate]]]]) -> tuple[Sweep, ...]:
    """From (contender, (workers, difference)...) rows."""
    edges = [edge for _, rows in found for _, one in rows for edge in (one.low, one.high)]
    if not edges:
        return ()
    scale = around([0.0, *edges], flipped=True)
    return tuple(
        Sweep(
            contender,
            tuple(Whisker(str(n), scale.at(one.low), scale.at(one.value), scale.at(one.high), one) for n, one in rows),
            scale.at(0.0),
        )
        for contender, rows in found
    )
