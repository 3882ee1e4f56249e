"""Results as a JSON document and as Markdown tables: bootstrap intervals over seeds, curves, paired differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np

from search.lab.experiment import PROTOCOL, Findings, Floats, Plan

RESAMPLES = 2000
LEVEL = 0.95
SAME = "not distinguishable"


@dataclass(frozen=True)
class Estimate:
    """A mean over `n` seeds with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float
    n: int

    def __post_init__(self) -> None:
        if self.n < 1 or not self.low <= self.value <= self.high:
            raise ValueError(f"an estimate lies within its interval: {self.low} {self.value} {self.high}, n={self.n}")

    @property
    def verdict(self) -> str:
        """Of a difference: better, worse, or not distinguishable when the interval covers 0."""
        return "better" if self.low > 0 else "worse" if self.high < 0 else SAME

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), **{name: round(getattr(self, name), 6) for name in ("value", "low", "high")}}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return cls(data["value"], data["low"], data["high"], data["n"])


@lru_cache(maxsize=2)
def draws(seeds: int) -> Floats:
    """How often each seed is taken in each resample, as shares: resamples x seeds. The same at every call."""
    counts = np.random.default_rng(seeds).multinomial(seeds, [1 / seeds] * seeds, size=RESAMPLES)
    return np.asarray(counts / seeds, dtype=np.float64)


def estimate(values: Floats) -> Estimate:
    """The mean over the seeds, with the interval that resampling seeds gives it. Values: one per seed."""
    low, high = np.quantile(draws(len(values)) @ values, _TAILS)
    mean = float(values.mean())
    return Estimate(mean, min(float(low), mean), max(float(high), mean), len(values))


def band(curves: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, low and high of curves over seeds: seeds x points in, points out."""
    low, high = np.quantile(draws(len(curves)) @ curves, _TAILS, axis=0)
    return curves.mean(axis=0), low, high


_TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)


CURVE_POINTS = 40  # at most so many steps of a curve are kept
AREA = "area"  # mean of the curve: area under it, divided by its steps
ALL = "all"


def result_document(findings: Findings, *, seconds: float) -> dict[str, Any]:
    """Plain JSON types. `cells` are single figures, `means` those over all spaces, `differences` are against the
    baseline, in pairs of seeds; a space or a number of workers named `all` is the mean over those."""
    plan = findings.plan
    return {
        "protocol": PROTOCOL,
        "basis": "simulated",
        "partial": findings.partial,
        "seconds": round(seconds, 1),
        "steps_told": findings.steps_told,
        "plan": _plan(plan),
        "cells": [_cell(findings, key) for key in _keys(findings)],
        "means": list(_means(findings)),
        "differences": list(_differences(findings)),
    }


def _plan(plan: Plan) -> dict[str, Any]:
    return {
        "spaces": [{"name": space.name, "parameters": list(space.sizes)} for space in plan.spaces],
        "contenders": [
            {"name": one.name, "params": one.params.to_json(), "pending": one.pending} for one in plan.contenders
        ],
        "workers": list(plan.workers),
        "seeds": plan.seeds,
        "first_seed": plan.first_seed,
        "steps": plan.steps,
        "points": list(plan.points),
        "skip_duplicates": plan.skip_duplicates,
        "baseline": plan.baseline,
        "resamples": RESAMPLES,
    }


def _keys(findings: Findings) -> list[tuple[str, int, str]]:
    """In the order of the plan, whatever order they were done in."""
    return [cell.key for cell in findings.plan.cells() if cell.key in findings.curves]


def figures_of(plan: Plan, curves: Floats) -> dict[str, Floats]:
    """One value per seed for each figure: best found at each point, and the area under the curve."""
    at = {str(point): curves[:, point - 1] for point in plan.points}
    return {**at, AREA: curves.mean(axis=1)}


def _cell(findings: Findings, key: tuple[str, int, str]) -> dict[str, Any]:
    curves = findings.curves[key]
    figures = {name: estimate(values).to_json() for name, values in figures_of(findings.plan, curves).items()}
    steps = sorted({round(at) for at in np.linspace(1, findings.plan.steps, min(CURVE_POINTS, findings.plan.steps))})
    mean, low, high = (_rounded(line) for line in band(curves[:, [step - 1 for step in steps]]))
    curve = {"steps": steps, "mean": mean, "low": low, "high": high}
    return {"space": key[0], "workers": key[1], "contender": key[2], "figures": figures, "curve": curve}


def _means(findings: Findings) -> Iterator[dict[str, Any]]:
    """Per contender and number of workers, and over all of these: the mean over spaces, where none is missing."""
    plan = findings.plan
    for contender in (one.name for one in plan.contenders):
        groups: list[tuple[int | str, tuple[int, ...]]] = [(count, (count,)) for count in plan.workers]
        for workers, counts in [*groups, (ALL, plan.workers)]:
            keys = [(space.name, count, contender) for space in plan.spaces for count in counts]
            if any(key not in findings.curves for key in keys):
                continue
            found = figures_of(plan, np.mean([findings.curves[key] for key in keys], axis=0))
            figures = {name: estimate(values).to_json() for name, values in found.items()}
            yield {"contender": contender, "workers": workers, "figures": figures}


def _differences(findings: Findings) -> Iterator[dict[str, Any]]:
    """Per contender: each space with each number of workers, the mean over spaces, and the mean over everything."""
    plan = findings.plan
    spaces = [space.name for space in plan.spaces]
    for contender in (one.name for one in plan.contenders if one.name != plan.baseline):
        groups: list[tuple[tuple[Any, Any], list[tuple[str, int]]]] = [
            ((name, count), [(name, count)]) for count in plan.workers for name in spaces
        ]
        groups += [((ALL, count), [(name, count) for name in spaces]) for count in plan.workers]
        groups.append(((ALL, ALL), [(name, count) for count in plan.workers for name in spaces]))
        for (space, workers), members in groups:
            for figure, found in _paired(findings, contender, members):
                verdict = {"verdict": found.verdict}
                place = {"contender": contender, "space": space, "workers": workers, "figure": figure}
                yield {**place, **found.to_json(), **verdict}


def _paired(findings: Findings, contender: str, members: Iterable[tuple[Any, Any]]) -> Iterator[tuple[str, Estimate]]:
    """Differences seed by seed, averaged over the members before resampling; nothing while a member is missing."""
    baseline = findings.plan.baseline
    pairs = [((space, count, contender), (space, count, baseline)) for space, count in members]
    if any(key not in findings.curves for pair in pairs for key in pair):
        return
    sides = [[figures_of(findings.plan, findings.curves[key]) for key in pair] for pair in pairs]
    for figure in sides[0][0]:
        yield figure, estimate(np.mean([mine[figure] - theirs[figure] for mine, theirs in sides], axis=0))


def _rounded(line: Floats) -> list[float]:
    return [round(float(value), 4) for value in line]


_MARKS = {"better": "+", "worse": "−", SAME: "="}


def tables(document: dict[str, Any]) -> str:
    """Everything a reader needs to doubt the figures: plan, one table for each number of workers, differences."""
    plan = document["plan"]
    parts = [_head(document)]
    parts += [_workers_table(document, workers) for workers in plan["workers"]]
    parts.append(_differences_table(document))
    return "\n\n".join(parts)


def _head(document: dict[str, Any]) -> str:
    plan = document["plan"]
    again = "drawn again" if plan["skip_duplicates"] else "judged again"
    done = " PARTIAL: stopped before its end." if document["partial"] else ""
    return (
        f"SIMULATED, protocol {document['protocol']}: {plan['seeds']} seeds from {plan['first_seed']} on, the same "
        f"for all, {plan['steps']} steps, duplicates {again}. {document['steps_told']} steps in "
        f"{document['seconds']:.0f} s.{done} Figures are the best found as a share of the optimum with 95 % bootstrap "
        f"intervals; differences are against {plan['baseline']}, in pairs of seeds: "
        "+ better, − worse, = not distinguishable."
    )


def _workers_table(document: dict[str, Any], workers: int) -> str:
    plan, last = document["plan"], str(document["plan"]["steps"])
    spaces = [space["name"] for space in plan["spaces"]]
    found = {(row["contender"], row["space"]): row for row in document["cells"] if row["workers"] == workers}
    lines = [f"**{workers} in flight, after {last} steps**", "", _row(["policy", *spaces, "difference", ""])]
    lines.append("|---" * (len(spaces) + 3) + "|")
    for name in (one["name"] for one in plan["contenders"]):
        figures = [_single(document, found.get((name, space)), last) for space in spaces]
        difference = difference_of(document, name, ALL, workers, last)
        lines.append(_row([name, *figures, *_words(difference)]))
    return "\n".join(lines)


def _differences_table(document: dict[str, Any]) -> str:
    plan = document["plan"]
    figures = [*(str(point) for point in plan["points"]), AREA]
    lines = ["**Difference, mean over all spaces and workers**", ""]
    lines.append(_row(["policy", *(f"at {name}" if name != AREA else AREA for name in figures), "singly, at the end"]))
    lines.append("|---" * (len(figures) + 2) + "|")
    for name in (one["name"] for one in plan["contenders"] if one["name"] != plan["baseline"]):
        found = [difference_of(document, name, ALL, ALL, figure) for figure in figures]
        single = ", ".join(f"{count} {word}" for count, word in singly(document, name)) or "—"
        lines.append(_row([name, *(" ".join(_words(one)).strip() for one in found), single]))
    return "\n".join(lines)


def singly(document: dict[str, Any], contender: str) -> list[tuple[int, str]]:
    """How the single pairs of space and workers come out after all steps: how many are better, worse, and the same."""
    rows = _rows(document, contender, str(document["plan"]["steps"]))
    counts = Counter(row["verdict"] for row in rows if ALL not in (row["space"], row["workers"]))
    return [(counts[word], word) for word in ("better", "worse", SAME) if counts[word]]


def difference_of(
    document: dict[str, Any], contender: str, space: str, workers: int | str, figure: str
) -> Estimate | None:
    """One difference against the baseline; None where it is the baseline or was not reached."""
    rows = _rows(document, contender, figure)
    return next((Estimate.from_json(row) for row in rows if (row["space"], row["workers"]) == (space, workers)), None)


def _rows(document: dict[str, Any], contender: str, figure: str) -> Iterator[dict[str, Any]]:
    return (row for row in document["differences"] if row["contender"] == contender and row["figure"] == figure)


def _single(document: dict[str, Any], row: dict[str, Any] | None, figure: str) -> str:
    """One contender on one space, marked with how it stands to the baseline there."""
    if row is None:
        return "—"
    found = Estimate.from_json(row["figures"][figure])
    difference = difference_of(document, row["contender"], row["space"], row["workers"], figure)
    mark = _MARKS[difference.verdict] if difference else ""
    return f"{found.value:.3f} [{found.low:.3f}, {found.high:.3f}] {mark}".rstrip()


def _words(found: Estimate | None) -> tuple[str, str]:
    if found is None:
        return "—", ""
    return f"{found.value:+.3f} [{found.low:+.3f}, {found.high:+.3f}]", found.verdict


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
