"""A comparison as JSON and CSV: every number with its basis, every ratio with the baseline it belongs to."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from adaexplore_site.core.downloads import csv_text, safe
from judge.evaluations.measures import Measure, basis_word
from search.compare.columns import Column
from search.compare.table import cautions, ratio, why_not
from search.rechecks.queries import Rechecked, races_between

FORMAT = "adaexplore-comparison/1"
NAMELESS: Mapping[str, str] = {}


def comparison_json(columns: Sequence[Column], base: Column, names: Mapping[str, str] = NAMELESS) -> dict[str, Any]:
    """Everything, field by field. `names` are the reader's own, by kernel."""
    return {
        "format": FORMAT,
        "baseline": str(base.key),
        "kernels": [_kernel(column, base) | {"name": names.get(str(column.key))} for column in columns],
        "races": [_race(one) for one in races_between([column.node.pk for column in columns]) if one.ratio],
    }


def _race(one: Rechecked) -> dict[str, Any]:
    """The first over the second, side by side."""
    row = one.row
    return {
        "first": f"{row.node.run_id}.{row.node.number}",
        "second": f"{row.rival.run_id}.{row.rival.number}" if row.rival else None,
        "call": one.call,
        "ratio": _plain(one.ratio) if one.ratio else None,
        "at": row.created_at.isoformat(),
    }


def comparison_csv(columns: Sequence[Column], base: Column, names: Mapping[str, str] = NAMELESS) -> str:
    """One line a kernel and figure, with its basis, the baseline of a ratio, and why there is none."""
    places, numbers = ("kernel", "name", "problem", "device", "case"), ("value", "low", "high", "n")
    lines: list[list[Any]] = [[*places, "basis", "metric", *numbers, "baseline", "not_comparable"]]
    for column in columns:
        barred = why_not(column, base)
        device = column.evaluation.device.name if column.evaluation else ""
        name = safe(names.get(str(column.key), ""))
        place = [str(column.key), name, safe(column.run.problem.slug), safe(device), safe(column.case or "")]
        for metric, measure in _figures(column, base):
            against = str(base.key) if metric.endswith("_ratio") else ""
            ends = ["" if value is None else f"{value:.6g}" for value in (measure.value, measure.low, measure.high)]
            lines.append([*place, basis_word(measure.basis), metric, *ends, measure.n or "", against, barred])
        for metric, count in dataclasses.asdict(column.resources).items():
            if count is not None:
                lines.append([*place, "", metric, count, "", "", "", "", barred])
    return csv_text(lines)


def _figures(column: Column, base: Column) -> list[tuple[str, Measure]]:
    found = [("speedup", column.measure, base.measure), ("speedup_compile", column.over_compile, base.over_compile)]
    rows: list[tuple[str, Measure]] = [(name, measure) for name, measure, _ in found if measure is not None]
    if column.measure is not None:
        rows += [(f"speedup_{name}", measure) for name, measure in column.measure.others.items()]
    if column is not base and not why_not(column, base):
        ratios = ((f"{name}_ratio", ratio(measure, other)) for name, measure, other in found)
        rows += [(name, measure) for name, measure in ratios if measure is not None]
    return rows


def _kernel(column: Column, base: Column) -> dict[str, Any]:
    evaluation, timing, price = column.evaluation, column.timing, column.calls.price_usd
    names = ("basis", "method", "n", "median_us", "low_us", "high_us")
    return {
        "kernel": str(column.key),
        "problem": {
            "slug": column.run.problem.slug,
            "sha256": column.run.problem.source_hash,
            "state": column.run.problem.state,
        },
        "case": column.case,
        "candidate_hash": column.node.source_hash,
        "device": evaluation.device.name if evaluation else None,
        "toolchain": evaluation.toolchain if evaluation else None,
        "protocol": evaluation.protocol if evaluation else None,
        "verdict": evaluation.verdict if evaluation else None,
        "audit": (evaluation.audit or "none") if evaluation else None,
        "basis": column.basis or None,
        "figures": {name: _plain(row) for name, row in _figures(column, base)},
        "not_comparable": why_not(column, base) or None,
        "cautions": cautions(column, base),
        "time_us": {name: getattr(timing, name) for name in names} if timing else None,
        "resources": dataclasses.asdict(column.resources),
        "kernels": list(column.kernels),
        "cases": [dataclasses.asdict(case) for case in column.cases],
        "calls": {**dataclasses.asdict(column.calls), "price_usd": None if price is None else str(price)},
    }


def _plain(measure: Measure) -> dict[str, Any]:
    return {**dataclasses.asdict(measure), "basis": measure.basis.value}
