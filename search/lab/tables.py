"""A result as Markdown tables, for a terminal and for documents. Takes the document of `result_document`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from search.lab.estimates import SAME, Estimate
from search.lab.results import ALL, AREA

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
        lines.append(_row([name, *(" ".join(_words(one)).strip() for one in found), singly(document, name)]))
    return "\n".join(lines)


def singly(document: dict[str, Any], contender: str) -> str:
    """How the single pairs of space and workers come out after all steps: `3 better, 9 not distinguishable`."""
    rows = _rows(document, contender, str(document["plan"]["steps"]))
    counts = Counter(row["verdict"] for row in rows if ALL not in (row["space"], row["workers"]))
    return ", ".join(f"{counts[word]} {word}" for word in ("better", "worse", SAME) if counts[word]) or "—"


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
