"""Pictures of kernels over two axes: the roofline, and the map of elites."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from django.db.models import F
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.core.plots import Axis, Roof, Tick
from judge.evaluations.models import Measurement
from judge.templatetags.units import flop_rate, microseconds, percent, significant
from judge.values import Basis, Subject
from search.algorithm.params import SearchParams
from search.algorithm.policies import elites_of
from search.pictures.book import Book
from search.pictures.values import Cell, NodeRef, Panel, Path, Picture, Rule, Spot, Table, Tile
from search.records.facts import LAUNCHES, PATTERNS, UNREADABLE, NodeRow, cells_of, tree_of
from search.records.log import steering_of

MOST_SPOTS = 400
ROOFLINE = {
    "node": _("Node"),
    "time_us": _("Time, µs"),
    "flops": _("FLOPs"),
    "bytes": _("Bytes"),
    "bytes_are": _("Bytes are"),
    "flop_per_byte": _("FLOP per byte"),
    "flop_per_s": _("FLOP/s"),
    "of_roof": _("Share of the roof"),
    "speedup": _("Speedup over eager"),
}
COUNTED, LEAST = _("counted in its launches"), _("the least that the problem moves")
ELITES = {
    "launches": _("Kernels launched"),
    "pattern": _("Arithmetic pattern"),
    "node": _("Elite"),
    "speedup": _("Speedup over eager"),
    "correct_kernels": _("Correct kernels in the cell"),
}
SHADES = (1.0, 1.25, 2.0, 4.0)  # speedups from which a cell is a shade darker
MEANING = _(
    "To the right: how many kernels the module launches, by call sites in its source. Down: the arithmetic of its "
    "kernels, the first that applies of dot products, scans, reductions and element by element, with + where they use "
    "atomics. In each cell its elite, the correct kernel with the highest reward, and how many correct ones it holds."
)


def roofline(book: Book) -> Picture:
    """Kernels stand at their own counted bytes; where nobody counted, at the least bytes, drawn as an arrow."""
    report = book.run.problem.report_for(book.run.device.name) or {}
    known = report.get("roofline") or {}
    if book.basis is Basis.REPORTED or not known or not report.get("flops"):
        return Picture(_missing(book, report))
    roof = Roof(report["flops"], report["compulsory_bytes"], known["dram_gb_s"], known["peak_tflops"])
    found = [_kernel(book, roof, row, timed) for row, timed in _timed(book)]
    unknown = len(book.correct) - len(found)
    table = Table(ROOFLINE, found)
    roofs = gettext("The roofs are %(tb_s).2f TB/s (%(source)s) and %(peak)g TFLOP/s with %(kind)s, of %(gpu)s.") % {
        "tb_s": known["dram_gb_s"] / 1e3,
        "source": known.get("source") or gettext("published"),
        "peak": known["peak_tflops"],
        "kind": known.get("kind", "fp32"),
        "gpu": known.get("title", known.get("target")),
    }
    flops = gettext("FLOPs are those of the problem, %(millions)s million, whatever a kernel computes.")
    notes = [flops % {"millions": significant(report["flops"] / 1e6)}]
    least = sum(row[4] == str(LEAST) for row in found)
    if least:
        notes.append(
            gettext(
                "Bytes moved were counted for %(counted)s of %(count)s; the others are drawn as arrows "
                "at the fewest bytes that the problem must move: a kernel that moves more is further "
                "left."
            )
            % {"counted": len(found) - least or gettext("none"), "count": len(found)}
        )
    if unknown:
        text = ngettext(
            "%(count)d correct kernel without a stored time, left out.",
            "%(count)d correct kernels without a stored time, left out.",
            unknown,
        )
        notes.append(text % {"count": unknown})
    failed = len(book.told) - len(book.correct)
    if failed:
        text = ngettext(
            "%(count)d attempt that did not pass, left out.", "%(count)d attempts that did not pass, left out.", failed
        )
        notes.append(text % {"count": failed})
    if not found:
        return Picture(
            gettext("No correct kernel has a stored time yet. %(roofs)s") % {"roofs": roofs}, table=table, notes=notes
        )
    top = max(found, key=lambda row: _number(row[7]))
    says = ngettext(
        "%(count)d correct kernel; node %(number)d comes closest to the roof, with %(share)s of it. %(roofs)s",
        "%(count)d correct kernels; node %(number)d comes closest to the roof, with %(share)s of it. %(roofs)s",
        len(found),
    ) % {"count": len(found), "number": _node(top), "share": percent(_number(top[7])), "roofs": roofs}
    key = [("best", gettext("best")), ("correct", gettext("correct")), ("slower", gettext("slower than eager"))]
    key += [("at-bound", gettext("bytes not counted"))] if least else []
    return Picture(says, (_panel(book, roof, found, says),), table=table, notes=notes, key=tuple(key))


def _missing(book: Book, report: dict[str, Any]) -> str:
    if book.basis is Basis.REPORTED:
        return gettext("Imported searches have no byte or FLOP counts, so there is nothing to draw.")
    if not report.get("flops"):
        return gettext("The problem's FLOPs are not known on this device: its preflight counted none.")
    return gettext("The roofs of this device are not known: its architecture is not among those with published peaks.")


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
        str(COUNTED if moved is counted else LEAST),
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
        style = "best" if number == best else "at-bound" if row[4] == str(LEAST) else slow
        title = gettext("node %(number)d: %(time)s, %(rate)s, %(share)s of the roof") % {
            "number": number,
            "time": microseconds(_number(row[1])),
            "rate": flop_rate(_number(row[6])),
            "share": percent(_number(row[7])),
        }
        spots.append(Spot(style, along.at(_number(row[5])), up.at(_number(row[6])), title))
    line = Rule("rule-one", along.at(roof.intensity), 0, along.at(roof.intensity), 100, gettext("least bytes"))
    return Panel(
        says=says,
        height=280,
        x_name=gettext("FLOP per byte"),
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


def elites(book: Book) -> Picture:
    """Replayed from the rows as the policy itself would, people's acts included."""
    steering = steering_of(book.run.pk)
    params = steering.params(SearchParams.of_run(book.run.params))
    if params.policy != "map_elites":
        return Picture(
            gettext("The policy of this search, %(policy)s, keeps no map of elites; map_elites does.")
            % {"policy": params.policy},
            timed=False,
        )
    tree = tree_of(book.rows, params)
    steering.mark(tree)
    found = elites_of(tree, tree.root)
    if not found:
        return Picture(gettext("No kernel is correct yet, so every cell is empty. %(meaning)s") % {"meaning": MEANING})
    by_number = {row.number: row for row in book.rows}
    counts = Counter(cells_of(book.rows).values())
    cells = {_split(cell): (by_number[branch.number], counts[cell]) for cell, branch in found.items()}
    rows = []
    for (launches, pattern), (row, count) in sorted(cells.items(), key=lambda item: _order(*item[0])):
        rows.append((launches, pattern, NodeRef(row.number), book.speedup(row), count))
    says = ngettext(
        "%(count)d cell with a correct kernel. %(meaning)s",
        "%(count)d cells with a correct kernel. %(meaning)s",
        len(cells),
    ) % {"count": len(cells), "meaning": MEANING}
    columns = [name for name in LAUNCHES if any(launches == name for launches, _ in cells)]
    lines = sorted({pattern for _, pattern in cells}, key=lambda pattern: _order("", pattern))
    if any(launches == UNREADABLE for launches, _ in cells):
        columns.append(UNREADABLE)
    wide, high = 100 / len(columns), 100 / len(lines)
    tiles = []
    for x, launches in enumerate(columns):
        for y, pattern in enumerate(lines):
            place = (round(x * wide, 2), round(y * high, 2), round(wide, 2), round(high, 2))
            known = cells.get((launches, pattern))
            if known is None:
                tiles.append(Tile("tile-empty", *place, ("—",)))
                continue
            row, count = known
            measure = book.speedup(row)
            node = gettext("node %(number)d") % {"number": row.number}
            speed = measure.number if measure else gettext("not timed")
            texts = (node, speed, gettext("%(count)d correct") % {"count": count})
            tiles.append(Tile(f"tile-{_shade(row.speedup)}", *place, texts))
    panel = Panel(
        says=says,
        height=max(90, 76 * len(lines)),
        x_name=gettext("kernels launched"),
        x_ticks=tuple(Tick(round((x + 0.5) * wide, 2), name) for x, name in enumerate(columns)),
        y_ticks=tuple(Tick(round((y + 0.5) * high, 2), name) for y, name in enumerate(lines)),
        tiles=tuple(tiles),
        grid=False,
    )
    return Picture(says, (panel,), table=Table(ELITES, rows), notes=book.left_out())


def _split(cell: str) -> tuple[str, str]:
    launches, colon, pattern = cell.partition(":")
    return (launches, pattern) if colon else (cell, cell)


def _order(launches: str, pattern: str) -> tuple[int, str]:
    return (
        PATTERNS.index(pattern.removesuffix("+atomic")) if pattern.removesuffix("+atomic") in PATTERNS else 9,
        f"{pattern}{launches}",
    )


def _shade(speedup: float | None) -> int:
    """0 below eager, then one more at each of SHADES."""
    return sum(not math.isnan(speedup or math.nan) and (speedup or 0.0) >= least for least in SHADES)
