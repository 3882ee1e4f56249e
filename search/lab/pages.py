"""What the pages of the laboratory show of a stored result. Facts only; words are in the templates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from search.lab.estimates import Estimate
from search.lab.plots import CurvePlot, Scale, Sweep, curve_plots, curve_scale, sweeps
from search.lab.results import ALL
from search.lab.tables import difference_of, singly


@dataclass(frozen=True)
class Standing:
    """One contender over everything: its mean and its difference from the baseline, None for the baseline itself or
    when the experiment was stopped before. `changes` are its parameters that differ from the baseline's."""

    name: str
    mean: Estimate | None
    difference: Estimate | None
    singly: str
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
            singly="" if one["name"] == plan["baseline"] else singly(document, one["name"]),
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
