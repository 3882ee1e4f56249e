"""What the pages of the laboratory show of a stored result, with pictures in per cent of width and height."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from search.lab.results import ALL, Estimate, difference_of, singly

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


@dataclass(frozen=True)
class Standing:
    """One contender over everything: its mean and its difference from the baseline, None for the baseline itself or
    when the experiment was stopped before. `changes` are its parameters that differ from the baseline's."""

    name: str
    mean: Estimate | None
    difference: Estimate | None
    singly: list[tuple[int, str]]  # how many pairs of space and workers have which verdict
    changes: dict[str, Any]


def standings(document: dict[str, Any]) -> list[Standing]:
    """The baseline first, then by difference, the best first."""
    plan, last = document["plan"], last_of(document)
    means = {row["contender"]: row["figures"][last] for row in document["means"] if row["workers"] == ALL}
    base = next(_settings(one) for one in plan["contenders"] if one["name"] == plan["baseline"])
    rows = [
        Standing(
            name=one["name"],
            mean=Estimate.from_json(means[one["name"]]) if one["name"] in means else None,
            difference=difference_of(document, one["name"], ALL, ALL, last),
            singly=[] if one["name"] == plan["baseline"] else singly(document, one["name"]),
            changes={name: value for name, value in _settings(one).items() if base.get(name) != value},
        )
        for one in plan["contenders"]
    ]
    return sorted(
        rows, key=lambda row: (row.name != plan["baseline"], -(row.difference.value if row.difference else -9))
    )


def _settings(contender: dict[str, Any]) -> dict[str, Any]:
    return {**contender["params"], "pending": contender["pending"]}


def sweep_plots(document: dict[str, Any]) -> tuple[Sweep, ...]:
    """Differences by number of workers, of every contender but the baseline."""
    plan, last = document["plan"], last_of(document)
    rows = []
    for name in (one["name"] for one in plan["contenders"] if one["name"] != plan["baseline"]):
        found = [(workers, difference_of(document, name, ALL, workers, last)) for workers in plan["workers"]]
        rows.append((name, [(workers, one) for workers, one in found if one is not None]))
    return sweeps([row for row in rows if row[1]])


@dataclass(frozen=True)
class SpaceCurves:
    """The curves on one space, all on one scale, and the differences at their end by contender."""

    name: str
    scale: Scale
    plots: tuple[tuple[CurvePlot, Estimate | None], ...]


def space_curves(document: dict[str, Any], workers: int) -> list[SpaceCurves]:
    """Curves of every space with so many steps in flight; a space that was not reached is left out."""
    plan, last = document["plan"], last_of(document)
    found = []
    for space in (one["name"] for one in plan["spaces"]):
        cells = [cell for cell in document["cells"] if (cell["space"], cell["workers"]) == (space, workers)]
        if not cells:
            continue
        scale = curve_scale(cells)
        plots = curve_plots(cells, scale, plan["baseline"], last)
        pairs = ((plot, difference_of(document, plot.contender, space, workers, last)) for plot in plots)
        found.append(SpaceCurves(space, scale, tuple(pairs)))
    return found


def last_of(document: dict[str, Any]) -> str:
    """The figure at the end of the searches, by its name in the document."""
    return str(document["plan"]["steps"])
