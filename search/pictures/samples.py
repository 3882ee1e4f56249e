"""Distributions: the raw samples of the fastest kernels over one axis, beside what they are compared with."""

from __future__ import annotations

from adaexplore_site.core.plots import Times, strips
from judge.evaluations.models import Measurement
from judge.evaluations.samples import SUBJECTS
from judge.templatetags.units import microseconds
from judge.values import Basis, Subject
from search.pictures.book import Book
from search.pictures.values import Cell, NodeRef, Picture, Table
from search.records.facts import NodeRow

NAME, TITLE = "samples", "Samples of the fastest kernels"
BEST = 5
NAMES = ("subject", "node", "method", "sample", "us")
MODEL_NAMES = ("subject", "node", "method", "us", "low_us", "high_us")


def samples(book: Book) -> Picture:
    """The files hold every sample, the page's table their medians. A modelled time has a range and no samples."""
    chosen = book.correct[:BEST]
    rows = _rows(book, chosen)
    if not rows:
        return Picture(NAME, TITLE, _missing(book))
    modelled = book.basis is Basis.MODELLED
    drawn = strips([_times(label, kind, row, modelled) for label, kind, _, row in rows], microseconds)
    count = sum(kind in {"best", "correct"} for _, kind, _, _ in rows)
    fastest = "The fastest correct kernel" if count == 1 else f"The {count} fastest correct kernels"
    says = f"{fastest} and what the best was compared with, over one logarithmic axis. "
    says += (
        "The long line is the modelled time and the bar its range. Nothing was measured, so there are no samples."
        if modelled
        else "Each thin line is one call, the long line is the median, and the bar below is its 99.8 % interval."
    )
    notes = list(book.left_out())
    lacking = len(chosen) - count
    if lacking:
        notes.append(f"{lacking} of the fastest {len(chosen)} without a stored time, left out.")
    return Picture(NAME, TITLE, says, (), drawn, _table(rows, modelled), tuple(notes))


def _missing(book: Book) -> str:
    if book.basis is Basis.REPORTED:
        return "Imported searches have two medians for each kernel and no samples, so there is nothing to draw."
    return "No correct kernel has been timed yet."


def _rows(book: Book, chosen: list[NodeRow]) -> list[tuple[str, str, int | None, Measurement]]:
    """(label, kind, node, measurement): the kernels by speed, then eager and torch.compile beside the best."""
    wanted = {book.evaluations[row.id]: row for row in reversed(chosen) if row.id in book.evaluations}
    timed = Measurement.objects.filter(evaluation__in=wanted, subject=Subject.CANDIDATE.value, basis=book.basis.value)
    found = {row.evaluation_id: row for row in timed}
    rows: list[tuple[str, str, int | None, Measurement]] = []
    for node in chosen:
        measurement = found.get(book.evaluations.get(node.id, 0))
        if measurement is not None:
            best = book.best is not None and node.number == book.best.number
            rows.append((f"node {node.number}", "best" if best else "correct", node.number, measurement))
    if not rows:
        return []
    for name in (Subject.EAGER, Subject.COMPILE):
        baseline = book.baselines.get(name.value)
        if baseline is not None:
            rows.append((SUBJECTS[name], "eager" if name is Subject.EAGER else "compile", None, baseline))
    return rows


def _times(label: str, kind: str, row: Measurement, modelled: bool) -> Times:
    return Times(label, kind, () if modelled else row.samples_us, row.low_us, row.median_us, row.high_us)


def _table(rows: list[tuple[str, str, int | None, Measurement]], modelled: bool) -> Table:
    if modelled:
        return Table(
            MODEL_NAMES,
            ("Subject", "Node", "Method", "Time, µs", "Range from, µs", "to, µs"),
            tuple(
                (label, _node(number), row.method, row.median_us, row.low_us, row.high_us)
                for label, _, number, row in rows
            ),
        )
    lines: list[tuple[Cell, ...]] = [
        (label, _node(number), row.method, place, float(us))
        for label, _, number, row in rows
        for place, us in enumerate(row.samples_us)
    ]
    return Table(NAMES, ("Subject", "Node", "Method", "Sample", "µs"), tuple(lines))


def _node(number: int | None) -> NodeRef | None:
    return None if number is None else NodeRef(number)
