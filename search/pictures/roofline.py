"""Roofline: what each correct kernel achieves over the bytes that it moves, below the roofs of its device."""

from __future__ import annotations

from typing import Any

from django.db.models import F

from adaexplore_site.core.plots import Axis, Roof
from judge.evaluations.models import Measurement
from judge.templatetags.units import flop_rate, microseconds, percent, significant
from judge.values import Basis, Subject
from search.pictures.book import Book
from search.pictures.values import Cell, NodeRef, Panel, Path, Picture, Rule, Spot, Table
from search.records.facts import NodeRow

MOST_SPOTS = 400
NAME, TITLE = "roofline", "Roofline"
NAMES = ("node", "time_us", "flops", "bytes", "bytes_are", "flop_per_byte", "flop_per_s", "of_roof", "speedup")
HEADS = (
    "Node",
    "Time, µs",
    "FLOPs",
    "Bytes",
    "Bytes are",
    "FLOP per byte",
    "FLOP/s",
    "Share of the roof",
    "Speedup over eager",
)
COUNTED, LEAST = "counted in its launches", "the least that the problem moves"


def roofline(book: Book) -> Picture:
    """Kernels stand at their own counted bytes; where nobody counted, at the least bytes, drawn as an arrow."""
    report = book.run.problem.report_for(book.run.device.name) or {}
    known = report.get("roofline") or {}
    if book.basis is Basis.REPORTED or not known or not report.get("flops"):
        return Picture(NAME, TITLE, _missing(book, report))
    roof = Roof(report["flops"], report["compulsory_bytes"], known["dram_gb_s"], known["peak_tflops"])
    found = [_kernel(book, roof, row, timed) for row, timed in _timed(book)]
    unknown = len(book.correct) - len(found)
    table = Table(NAMES, HEADS, tuple(found))
    kernels = f"{len(found)} correct kernel{'s' * (len(found) != 1)}"
    roofs = (
        f"The roofs are {known['dram_gb_s'] / 1e3:.2f} TB/s ({known.get('source') or 'published'}) and "
        f"{known['peak_tflops']:g} TFLOP/s with {known.get('kind', 'fp32')}, of "
        f"{known.get('title', known.get('target'))}."
    )
    notes = [
        f"FLOPs are those of the problem, {significant(report['flops'] / 1e6)} million, whatever a kernel computes."
    ]
    least = sum(row[4] == LEAST for row in found)
    if least:
        notes.append(
            f"Bytes moved were counted for {len(found) - least or 'none'} of {len(found)}; the others stand as arrows "
            "at the least bytes that the problem must move: a kernel that moves more lies further to the left."
        )
    if unknown:
        notes.append(f"{unknown} correct kernel{'s' * (unknown != 1)} without a stored time, left out.")
    failed = len(book.told) - len(book.correct)
    if failed:
        notes.append(f"{failed} attempt{'s' * (failed != 1)} that did not pass, left out.")
    if not found:
        return Picture(
            NAME, TITLE, f"No correct kernel has a stored time yet. {roofs}", table=table, notes=tuple(notes)
        )
    top = max(found, key=lambda row: _number(row[7]))
    says = f"{kernels}; node {_node(top)} comes closest to the roof, with {percent(_number(top[7]))} of it. {roofs}"
    key = [("best", "best"), ("correct", "correct"), ("slower", "slower than eager")]
    key += [("at-bound", "bytes not counted")] if least else []
    return Picture(NAME, TITLE, says, (_panel(book, roof, found, says),), None, table, tuple(notes), (), tuple(key))


def _missing(book: Book, report: dict[str, Any]) -> str:
    if book.basis is Basis.REPORTED:
        return "Imported searches have no byte or FLOP counts, so there is nothing to draw."
    if not report.get("flops"):
        return "The problem's FLOPs are not known on this device: its preflight counted none."
    return "The roofs of this device are not known: its architecture is not among those with published peaks."


def _timed(book: Book) -> list[tuple[NodeRow, dict[str, Any]]]:
    """(node, time and counted bytes) of correct nodes, in one query that leaves samples where they are."""
    rows = Measurement.objects.filter(evaluation__nodes__run=book.run, subject=Subject.CANDIDATE.value)
    rows = rows.filter(basis=book.basis.value).annotate(node=F("evaluation__nodes"))
    found = {row["node"]: row for row in rows.values("node", "median_us", "detail__unique_bytes")}
    return [(row, dict(found[row.id])) for row in book.correct if row.id in found]


def _kernel(book: Book, roof: Roof, row: NodeRow, timed: dict[str, Any]) -> tuple[Cell, ...]:
    counted = timed["detail__unique_bytes"]
    moved = counted if isinstance(counted, int | float) and counted > 0 else roof.bytes
    rate, intensity = roof.flops / (timed["median_us"] * 1e-6), roof.flops / moved
    return (
        NodeRef(row.number),
        round(timed["median_us"], 3),
        roof.flops,
        moved,
        COUNTED if moved is counted else LEAST,
        round(intensity, 4),
        round(rate),
        round(rate / roof.reach(intensity), 4),
        book.speedup(row),
    )


def _panel(book: Book, roof: Roof, found: list[tuple[Cell, ...]], says: str) -> Panel:
    rates, intensities = [_number(row[6]) for row in found], [_number(row[5]) for row in found]
    along = Axis.around([*intensities, roof.intensity, roof.ridge], 4.0, 0.0, 100.0)
    top = roof.reach(roof.ridge)
    up = Axis.around([top, roof.reach(min(intensities)), *rates], 2.0, 97.0, 3.0)
    start = max(along.low, up.low / (roof.gb_s * 1e9))
    ridge = along.at(roof.ridge)
    roofs = Path("line-roof", f"M{along.at(start)} {up.at(roof.reach(start))}L{ridge} {up.at(top)}H100")
    best = book.best.number if book.best else None
    stride = 1 + len(found) // MOST_SPOTS
    spots = []
    for place, row in reversed(list(enumerate(found))):
        number, speed = _node(row), row[8]
        if place % stride and number != best:
            continue
        slow = "slower" if getattr(speed, "value", 1.0) < 1 else "correct"
        look = "best" if number == best else "at-bound" if row[4] == LEAST else slow
        reached = f"{flop_rate(_number(row[6]))}, {percent(_number(row[7]))} of the roof"
        title = f"node {number}: {microseconds(_number(row[1]))}, {reached}"
        spots.append(Spot(look, along.at(_number(row[5])), up.at(_number(row[6])), title))
    line = Rule("rule-one", along.at(roof.intensity), 0, along.at(roof.intensity), 100, "least bytes")
    return Panel(
        title=TITLE,
        says=says,
        height=280,
        x_name="FLOP per byte",
        x_ticks=along.ticks(lambda value: f"{value:g}", 4),
        y_ticks=up.ticks(flop_rate, 5),
        paths=(roofs,),
        rules=(line,),
        spots=tuple(spots),
    )


def _number(cell: Cell) -> float:
    assert isinstance(cell, int | float)
    return cell


def _node(row: tuple[Cell, ...]) -> int:
    node = row[0]
    assert isinstance(node, NodeRef)
    return node.number
