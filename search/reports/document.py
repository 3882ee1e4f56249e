"""A report as plain JSON, as CSV and as text for a terminal."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterator
from typing import Any

from judge.values import Basis
from search.reports.values import OVER, RULES, Block, Report

_HEAD = ("basis", "device", "population", "over", "metric", "value", "low", "high", "problems", "unknown", "rule")


def report_json(report: Report) -> dict[str, Any]:
    """Everything, field by field."""
    found = dataclasses.asdict(report)
    found["rule_says"] = RULES[report.rule]
    return found


def report_csv(report: Report) -> str:
    """One row per figure, each with its basis and device."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_HEAD)
    for block in report.blocks:
        for table in block.tables:
            for figure in table.figures:
                given = (figure.value, figure.low, figure.high)
                numbers = ["" if value is None else f"{value:.6g}" for value in given]
                place = (block.basis.value, block.device, table.population, table.over, figure.metric)
                writer.writerow([*place, *numbers, figure.n, table.unknown, report.rule])
    return buffer.getvalue()


def report_text(report: Report) -> str:
    """What a terminal shows."""
    lines = [report.title, RULES[report.rule].capitalize() + "."]
    if report.unassisted:
        lines.append(f"Unassisted only: {report.assisted_runs} searches and {report.assisted_nodes} kernels left out.")
    if not report.blocks:
        lines.append("The selection has no searches with times.")
    for block in report.blocks:
        lines += ["", *_block_lines(block)]
    return "\n".join(lines)


def _block_lines(block: Block) -> Iterator[str]:
    basis = "MODELLED" if block.basis is Basis.MODELLED else block.basis.value
    yield f"{block.device_title} ({block.device}), {basis}: {len(block.lines)} problems, {block.runs} searches"
    yield from (f"  {note}" for note in notes(block))
    for table in block.tables:
        if not table.timed:
            yield f"  {table.population}, over {OVER[table.over]}: no kernel was timed against it"
            continue
        yield f"  {table.population}, over {OVER[table.over]}" + _unknown(table.unknown)
        for figure in table.figures:
            yield f"    {figure.label:<28} {figure}"
    for line in block.lines:
        shown = str(line.measure) if line.measure else ("correct, not timed" if line.run else "no correct kernel")
        mark = "" if not line.run or line.audited or block.elsewhere else ", provisional"
        yield f"  {line.slug:<32} {shown}{mark}" + (f" (run {line.run}, node {line.number})" if line.run else "")


def _unknown(count: int) -> str:
    return f" ({count} correct, not timed against it: left out)" if count else ""


def _of(count: int, one: str, many: str) -> str:
    return one if count == 1 else f"{count} {many}"


def notes(block: Block) -> list[str]:
    """What the figures leave out, in sentences."""
    found = []
    if block.degenerate:
        slugs = ", ".join(slug for slug, _ in block.degenerate)
        found.append(f"{len(block.degenerate)} degenerate, excluded from all figures: {slugs}.")
    if block.unended:
        said = _of(block.unended, "1 search has not ended and counts", "searches have not ended and count")
        found.append(f"{said} as of now.")
    if block.unbegun:
        said = _of(block.unbegun, "1 search has no verdict yet and is", "searches have no verdict yet and are")
        found.append(f"{said} excluded from all figures.")
    if block.provisional_only:
        found.append(f"{block.provisional_only} correct without any audited kernel: audited figures count a failure.")
    if block.provisional_faster:
        found.append(f"{block.provisional_faster} with a faster kernel that was not audited.")
    if block.basis is Basis.MODELLED:
        found.append("Intervals reflect the choice of problems; the error of the model is given with each problem.")
    if block.elsewhere:
        found.append("Reported by the source; nothing was measured or audited here.")
    return found
