"""Pictures of speedups and times: the best so far, the lineage of the best kernel, samples of the fastest kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.core.plots import Axis, Linear, Tick, Times, speedup_axis, speedup_ticks, strips, time_unit
from judge.evaluations.beside import SUBJECTS
from judge.evaluations.models import Measurement
from judge.sources.highlighting import visible
from judge.templatetags.units import duration, microseconds
from judge.values import Basis, Subject
from search.algorithm.ranking import rank
from search.algorithm.tree import LARGE
from search.pictures.book import Book
from search.pictures.values import Cell, NodeRef, Panel, Path, Picture, Rule, Spot, Table
from search.records.facts import NodeRow, nothing_faster

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MOST_SPOTS = 400  # drawn; new bests always are
FLOOR = 93.0  # below this lies the strip of failed attempts
KEY = (
    ("best", _("new best")),
    ("tied", _("its interval overlaps the best")),
    ("correct", _("correct")),
    ("slower", _("slower than eager")),
    ("wrong", _("failed")),
    ("compile-error", _("does not compile")),
    ("suspect", _("not settled")),
    ("cancelled", _("withdrawn")),
)
COLUMNS = {
    "node": _("Node"),
    "result": _("Result"),
    "speedup": _("Speedup over eager"),
    "best_node": _("Best so far"),
}
LINEAGE = {
    "node": _("Node"),
    "step": _("Step"),
    "result": _("Result"),
    "speedup": _("Speedup over eager"),
    "summary": _("Change described by the proposer"),
}
LABELS = 14  # numbers drawn beside marks of a lineage; the table has all
BEST = 5  # kernels whose samples are drawn
SUBJECT = {"subject": _("Subject"), "node": _("Node"), "method": _("Method")}
SAMPLES: dict[str, StrOrPromise] = {**SUBJECT, "sample": _("Sample"), "us": "µs"}
MODELLED: dict[str, StrOrPromise] = {
    **SUBJECT,
    "us": _("Time, µs"),
    "low_us": _("Range from, µs"),
    "high_us": _("to, µs"),
}


@dataclass(frozen=True)
class Across:
    """A horizontal axis: its label, and how a value of it is said."""

    name: str
    label: StrOrPromise
    says: Callable[[float], str]
    time: bool = False


AXES = {
    "attempts": Across("attempts", _("attempts"), lambda value: f"{value:,.0f}"),
    "time": Across("time", _("time since the start"), duration, True),
    "device": Across("device", _("device time"), duration, True),
    "tokens": Across("tokens", _("tokens"), lambda value: f"{value:,.0f}"),
    "cost": Across("cost", _("cost, US dollars"), lambda value: f"${value:.2f}"),
}


class Point(NamedTuple):
    """One attempt. `x` is None when unknown; `best` is the best node once it was completed."""

    row: NodeRow
    x: float | None
    timed: bool
    record: bool
    tied: bool
    best: NodeRow | None


def result_of(row: NodeRow) -> str:
    """Its verdict as text."""
    return row.verdict.replace("_", " ")


def best_so_far(book: Book, x: str = "attempts") -> Picture:
    """`x` is one of AXES; one that this search has no values for gives attempts."""
    offered = [name for name in AXES if _has(book, name)]
    across = AXES[x if x in offered else "attempts"]
    points = _points(book, across.name)
    table = Table({"x": str(across.label).capitalize(), **COLUMNS}, points, partial(_line, book))
    choices = tuple((name, str(AXES[name].label), name == across.name) for name in offered)
    if not points:
        return Picture(gettext("No attempt has ended yet."), table=table, choices=choices)
    notes = list(book.left_out())
    unknown = sum(point.x is None for point in points)
    if unknown:
        text = ngettext(
            "%(count)d attempt with unknown %(axis)s, left out.",
            "%(count)d attempts with unknown %(axis)s, left out.",
            unknown,
        )
        notes.append(text % {"count": unknown, "axis": across.label})
    if book.basis is Basis.REPORTED:
        notes.append(gettext("The source reported no intervals, so there is no band."))
    elif book.basis is Basis.MODELLED:
        notes.append(gettext("The band is the range of the time model, not of a measurement."))
    panel = _panel(book, [point for point in points if point.x is not None], across)
    styles = {spot.style for spot in panel.spots}
    key = tuple((style, str(label)) for style, label in KEY if style in styles)
    return Picture(_says(book, points), (panel,), table=table, notes=notes, key=key, choices=choices)


def _has(book: Book, name: str) -> bool:
    if name in {"tokens", "cost"}:
        return any((calls.tokens if name == "tokens" else calls.usd) for calls in book.calls.values())
    if name == "device":
        return bool(book.device_ms)
    return name == "attempts" or not book.imported


def _points(book: Book, x: str) -> list[Point]:
    found: list[Point] = []
    best: NodeRow | None = None
    known = Decimal(0)
    for place, row in enumerate(book.told, start=1):
        timed = book.timed(row)
        at: float | None = float(place)
        if x == "time":
            at = max((row.told_at - book.run.created_at).total_seconds(), 0.0) if row.told_at else None
        elif x == "device":
            known += Decimal(book.device_ms.get(row.id, 0.0) / 1000)
            at = float(known)
        elif x in {"tokens", "cost"}:
            part = book.spent(row)[x == "cost"]
            known += Decimal(part or 0)
            at = None if part is None else float(known)
        record = (
            timed
            and row.may_be_best
            and (best is None or rank(row.speedup, row.number) > rank(best.speedup, best.number))
        )
        tied = not record and timed and book.basis is Basis.MEASURED and _reaches(row, best)
        best = row if record else best
        found.append(Point(row, at, timed, record, tied, best))
    return found


def _reaches(row: NodeRow, best: NodeRow | None) -> bool:
    """Whether a measured interval holds the best's speedup. A model's range is one error for all, and ties nothing."""
    return best is not None and (row.high or 0.0) >= (best.speedup or 0.0)


def _line(book: Book, point: Point) -> tuple[Cell, ...]:
    best = None if point.best is None else NodeRef(point.best.number)
    x = None if point.x is None else round(point.x, 6)
    return (x, NodeRef(point.row.number), result_of(point.row), book.speedup(point.row), best)


def _panel(book: Book, points: list[Point], across: Across) -> Panel:
    compiled = _compiled(book)
    values = [value for point in points if point.timed for value in _ends(point.row, point.record)]
    up = speedup_axis([*values, *([compiled] if compiled else [])], FLOOR, 3.0)
    top = max((point.x or 0.0 for point in points), default=1.0)
    along = Linear(0.0, top if top > 0 else 1.0, 1.0, 99.0)
    rules = [Rule.across("rule-one", up.at(1.0), "eager")]
    if compiled:
        rules.append(Rule.across("rule-compile", up.at(compiled), "torch.compile"))
    return Panel(
        says=_says(book, points),
        height=260,
        x_name=str(across.label),
        x_ticks=along.ticks(across.says, 4, time_unit(along.high) if across.time else 1.0),
        y_ticks=speedup_ticks(up),
        paths=_steps(points, along, up),
        rules=tuple(rules),
        spots=_spots(book, points, along, up),
    )


def _ends(row: NodeRow, record: bool) -> list[float]:
    ends = [row.speedup, row.low, row.high] if record else [row.speedup]
    return [end for end in ends if end]


def _steps(points: list[Point], along: Linear, up: Axis) -> tuple[Path, ...]:
    """Per best its band and its stretch of the step; dashed from where another kernel's interval reaches it."""
    found: list[Path] = []
    records = [place for place, point in enumerate(points) if point.record]
    last_y: float | None = None
    for number, place in enumerate(records):
        point = points[place]
        row = point.row
        assert row.speedup is not None and point.x is not None
        ended = points[records[number + 1]].x if number + 1 < len(records) else None
        start, end = along.at(point.x), 100.0 if ended is None else along.at(ended)
        y = up.at(row.speedup)
        if row.low and row.high:
            found.append(Path("area-band", f"M{start} {up.at(row.low)}H{end}V{up.at(row.high)}H{start}Z"))
        if last_y is not None:
            found.append(Path("line-step", f"M{start} {last_y}V{y}"))
        until = records[number + 1] if number + 1 < len(records) else len(points)
        tie = next((one.x for one in points[place + 1 : until] if one.tied), None)
        middle = end if tie is None else along.at(tie)
        found.append(Path("line-step", f"M{start} {y}H{middle}"))
        if tie is not None:
            found.append(Path("line-step line-tied", f"M{middle} {y}H{end}"))
        last_y = y
    return tuple(found)


def _spots(book: Book, points: list[Point], along: Linear, up: Axis) -> tuple[Spot, ...]:
    stride = 1 + len(points) // MOST_SPOTS
    found = []
    for place, point in enumerate(points):
        if point.x is None or (place % stride and not point.record):
            continue
        measure = book.speedup(point.row)
        y = up.at(measure.value) if measure else 97.0
        style = "best" if point.record and point.row.number in book.won else "tied" if point.tied else point.row.style()
        said = str(measure) if measure else result_of(point.row)
        title = gettext("node %(number)d: %(said)s") % {"number": point.row.number, "said": said}
        found.append(Spot(style, along.at(point.x), y, title))
    return tuple(found)


def _compiled(book: Book) -> float | None:
    """torch.compile over eager, as timed beside the best kernel."""
    eager, compiled = (book.baselines.get(name.value) for name in (Subject.EAGER, Subject.COMPILE))
    return eager.median_us / compiled.median_us if eager and compiled and compiled.median_us else None


def _says(book: Book, points: list[Point]) -> str:
    count, best = len(points), book.best
    attempts = ngettext("%(count)d attempt", "%(count)d attempts", count) % {"count": count}
    if best is None and book.leader is not None:
        return gettext("%(attempts)s. %(nothing)s; the closest is node %(number)d, %(speedup)s.") % {
            "attempts": attempts,
            "nothing": nothing_faster(ended=book.run.ended),
            "number": book.leader.number,
            "speedup": book.speedup(book.leader),
        }
    if best is None:
        return gettext("%(attempts)s; none is the best yet.") % {"attempts": attempts}
    records = sum(point.record and point.row.number in book.won for point in points)
    text = ngettext(
        "%(attempts)s; the best was set once and is node %(number)d, %(speedup)s.",
        "%(attempts)s; the best was raised %(records)d times and is node %(number)d, %(speedup)s.",
        records,
    )
    says = text % {
        "attempts": attempts,
        "records": records,
        "number": best.number,
        "speedup": book.speedup(best),
    }
    tied = sum(point.tied for point in points)
    if not tied:
        return says
    also = ngettext(
        "The interval of %(count)d other attempt reaches a best before it.",
        "The interval of %(count)d other attempts reaches a best before it.",
        tied,
    )
    return f"{says} {also % {'count': tied}}"


def lineage(book: Book) -> Picture:
    """The path of parents. A node that failed stands at the foot: it was repaired or taken up by its child."""
    if book.leader is None:
        return Picture(gettext("There is no best kernel yet, so there is no lineage to show."))
    line: list[NodeRow] = [book.leader]
    while (parent := line[-1].parent) is not None:
        line.append(book.rows[parent])
    line.reverse()
    steps = line[1:]
    rows = [
        (
            NodeRef(row.number),
            gettext("large step") if row.kind == LARGE else gettext("small step"),
            result_of(row),
            book.speedup(row),
            visible(row.summary),
        )
        for row in steps
    ]
    large = sum(row.kind == LARGE for row in steps)
    failed = sum(book.speedup(row) is None for row in steps)
    values = {"number": book.leader.number, "count": len(steps), "large": large}
    said = ngettext(
        "Node %(number)d is %(count)d step below the start, %(large)d of them large.",
        "Node %(number)d is %(count)d steps below the start, %(large)d of them large.",
        len(steps),
    )
    said %= values
    if not book.best:
        closest = gettext("%(nothing)s; this is the line of the closest kernel.")
        said = f"{closest % {'nothing': nothing_faster(ended=book.run.ended)}} {said}"
    if failed:
        text = ngettext(
            "%(count)d kernel on the way did not pass.", "%(count)d kernels on the way did not pass.", failed
        )
        said += f" {text % {'count': failed}}"
    key = (
        ("best", gettext("best")),
        ("correct", gettext("correct")),
        ("slower", gettext("slower than eager")),
        ("wrong", gettext("did not pass")),
    )
    panel = _lineage_panel(book, line, said)
    return Picture(said, (panel,), table=Table(LINEAGE, rows), notes=book.left_out(), key=key)


def _lineage_panel(book: Book, line: list[NodeRow], says: str) -> Panel:
    up = speedup_axis([row.speedup for row in line if row.speedup], 84.0, 14.0)
    gap = 92.0 / max(1, len(line) - 1)
    places = [
        (4.0 + gap * place, up.at(1.0) if not place else up.at(row.speedup) if row.speedup else 97.0)
        for place, row in enumerate(line)
    ]
    paths = [
        Path(f"edge edge-{row.kind}", f"M{x1:.2f} {y1}L{x2:.2f} {y2}")
        for row, (x1, y1), (x2, y2) in zip(line[1:], places, places[1:], strict=False)
    ]
    stride = 1 + (len(line) - 1) // LABELS
    spots = []
    for place, (row, (x, y)) in enumerate(zip(line, places, strict=True)):
        last = place == len(line) - 1
        style = "best" if last and book.best else row.style()
        label = gettext("start") if not place else str(row.number) if last or not place % stride else ""
        said = book.speedup(row) or row.verdict or gettext("start")
        title = gettext("node %(number)d: %(said)s") % {"number": row.number, "said": said}
        spots.append(Spot(style, round(x, 2), y, title, label))
    return Panel(
        says=says,
        height=200,
        x_name=gettext("steps from the start"),
        x_ticks=(Tick(4.0, "0"), Tick(96.0, str(len(line) - 1))),
        y_ticks=speedup_ticks(up, 4),
        paths=tuple(paths),
        rules=(Rule.across("rule-one", up.at(1.0)),),
        spots=tuple(spots),
    )


def samples(book: Book) -> Picture:
    """The files hold every sample, the page's table their medians. A modelled time has a range and no samples."""
    chosen = book.correct[:BEST]
    rows = _rows(book, chosen)
    if not rows:
        return Picture(_missing(book))
    modelled = book.basis is Basis.MODELLED
    times = [
        Times(label, kind, () if modelled else row.samples_us, row.low_us, row.median_us, row.high_us)
        for label, kind, _, row in rows
    ]
    drawn = strips(times, microseconds)
    count = sum(kind in {"best", "correct"} for _, kind, _, _ in rows)
    says = ngettext(
        "The fastest correct kernel and what the best was compared with, over one logarithmic axis.",
        "The %(count)d fastest correct kernels and what the best was compared with, over one logarithmic axis.",
        count,
    ) % {"count": count}
    says += " " + (
        gettext(
            "The long line is the modelled time and the bar its range. Nothing was measured, so there are no samples."
        )
        if modelled
        else gettext(
            "Each thin line is one call, the long line is the median, and the bar below is its 99.8 % interval."
        )
    )
    notes = list(book.left_out())
    lacking = len(chosen) - count
    if lacking:
        notes.append(
            gettext("%(lacking)s of the fastest %(count)s without a stored time, left out.")
            % {"lacking": lacking, "count": len(chosen)}
        )
    return Picture(says, strips=drawn, table=_samples_table(rows, modelled), notes=notes)


def _missing(book: Book) -> str:
    if book.basis is Basis.REPORTED:
        return gettext(
            "Imported searches have two medians for each kernel and no samples, so there is nothing to draw."
        )
    return gettext("No correct kernel has been timed yet.")


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
            label = gettext("node %(number)d") % {"number": node.number}
            rows.append((label, "best" if best else "correct", node.number, measurement))
    if not rows:
        return []
    for name in (Subject.EAGER, Subject.COMPILE):
        baseline = book.baselines.get(name.value)
        if baseline is not None:
            rows.append((str(SUBJECTS[name]), "eager" if name is Subject.EAGER else "compile", None, baseline))
    return rows


def _samples_table(rows: list[tuple[str, str, int | None, Measurement]], modelled: bool) -> Table:
    named = [((label, number and NodeRef(number), row.method), row) for label, _, number, row in rows]
    if modelled:
        return Table(MODELLED, [(*name, row.median_us, row.low_us, row.high_us) for name, row in named])
    return Table(SAMPLES, [(*name, place, float(us)) for name, row in named for place, us in enumerate(row.samples_us)])
