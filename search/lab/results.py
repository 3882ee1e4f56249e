"""The result of an experiment as a JSON document: figures with intervals, curves, paired differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from search.lab.estimates import RESAMPLES, Estimate, Floats, band, estimate
from search.lab.experiment import PROTOCOL, Findings, Plan

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
