"""Best so far: every attempt on the one scale of speedups, the best as a step with the band of its interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import NamedTuple

from adaexplore_site.core.plots import Axis, Linear, speedup_axis, speedup_ticks, time_unit
from judge.templatetags.units import duration
from judge.values import Basis, Subject
from search.pictures.book import Book
from search.pictures.values import Cell, NodeRef, Panel, Path, Picture, Rows, Rule, Spot, Table
from search.records.facts import NodeRow
from search.records.winning import nothing_faster

MOST_SPOTS = 400  # drawn; new bests always are
FLOOR = 93.0  # below this lies the strip of failed attempts
HEADS = ("Attempt", "Node", "Result", "Speedup over eager", "Best so far")
KEY = (
    ("best", "new best"),
    ("tied", "its interval overlaps the best"),
    ("correct", "correct"),
    ("slower", "slower than eager"),
    ("wrong", "failed"),
    ("compile-error", "does not compile"),
    ("suspect", "not settled"),
    ("cancelled", "withdrawn"),
)
NAMES = ("x", "node", "result", "speedup", "best_node")


@dataclass(frozen=True)
class Across:
    """A horizontal axis: its words, and how a value of it is said."""

    name: str
    words: str
    says: Callable[[float], str]
    time: bool = False


AXES = {
    "attempts": Across("attempts", "attempts", lambda value: f"{value:,.0f}"),
    "time": Across("time", "time since the start", duration, True),
    "device": Across("device", "device time", duration, True),
    "tokens": Across("tokens", "tokens", lambda value: f"{value:,.0f}"),
    "cost": Across("cost", "cost, US dollars", lambda value: f"${value:.2f}"),
}


class Point(NamedTuple):
    """One attempt. `x` is None when unknown; `best` is the best node once it was told."""

    row: NodeRow
    x: float | None
    timed: bool
    record: bool
    tied: bool
    best: NodeRow | None


def best_so_far(book: Book, x: str = "attempts") -> Picture:
    """`x` is one of AXES; one that this search has no values for gives attempts."""
    offered = [name for name in AXES if _has(book, name)]
    across = AXES[x if x in offered else "attempts"]
    points = _points(book, across.name)
    table = Table(NAMES, (across.words.capitalize(), *HEADS[1:]), Rows(points, partial(_line, book)))
    choices = tuple((name, AXES[name].words, name == across.name) for name in offered)
    title = "Best so far"
    if not points:
        return Picture("best-so-far", title, "No attempt has ended yet.", table=table, choices=choices)
    notes = list(book.left_out())
    unknown = sum(point.x is None for point in points)
    if unknown:
        notes.append(f"{unknown} attempt{'s' * (unknown != 1)} with unknown {across.words}, left out.")
    if book.basis is Basis.REPORTED:
        notes.append("The source reported no intervals, so there is no band.")
    elif book.basis is Basis.MODELLED:
        notes.append("The band is the range of the time model, not of a measurement.")
    panel = _panel(book, [point for point in points if point.x is not None], across)
    looks = {spot.look for spot in panel.spots}
    key = tuple((look, word) for look, word in KEY if look in looks)
    return Picture("best-so-far", title, _says(book, points), (panel,), None, table, tuple(notes), (), key, choices)


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
        record = timed and row.may_be_best and (best is None or _faster(row, best))
        tied = not record and timed and book.basis is Basis.MEASURED and _reaches(row, best)
        best = row if record else best
        found.append(Point(row, at, timed, record, tied, best))
    return found


def _reaches(row: NodeRow, best: NodeRow | None) -> bool:
    """Whether a measured interval holds the best's speedup. A model's range is one error for all, and ties nothing."""
    return best is not None and (row.high or 0.0) >= (best.speedup or 0.0)


def _faster(row: NodeRow, best: NodeRow) -> bool:
    return ((row.speedup or 0.0), -row.number) > ((best.speedup or 0.0), -best.number)


def _line(book: Book, point: Point) -> tuple[Cell, ...]:
    best = None if point.best is None else NodeRef(point.best.number)
    x = None if point.x is None else round(point.x, 6)
    return (x, NodeRef(point.row.number), point.row.verdict.replace("_", " "), book.speedup(point.row), best)


def _panel(book: Book, points: list[Point], across: Across) -> Panel:
    compiled = _compiled(book)
    values = [value for point in points if point.timed for value in _ends(point.row, point.record)]
    up = speedup_axis([*values, *([compiled] if compiled else [])], FLOOR, 3.0)
    top = max((point.x or 0.0 for point in points), default=1.0)
    along = Linear(0.0, top if top > 0 else 1.0, 1.0, 99.0)
    rules = [Rule("rule-one", 0, up.at(1.0), 100, up.at(1.0), "eager")]
    if compiled:
        rules.append(Rule("rule-compile", 0, up.at(compiled), 100, up.at(compiled), "torch.compile"))
    return Panel(
        title="Speedup over eager",
        says=_says(book, points),
        height=260,
        x_name=across.words,
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
        look = (
            "best" if point.record and point.row.number in book.won else "tied" if point.tied else book.look(point.row)
        )
        said = str(measure) if measure else point.row.verdict.replace("_", " ")
        found.append(Spot(look, along.at(point.x), y, f"node {point.row.number}: {said}"))
    return tuple(found)


def _compiled(book: Book) -> float | None:
    """torch.compile over eager, as timed beside the best kernel."""
    eager, compiled = (book.baselines.get(name.value) for name in (Subject.EAGER, Subject.COMPILE))
    return eager.median_us / compiled.median_us if eager and compiled and compiled.median_us else None


def _says(book: Book, points: list[Point]) -> str:
    count = f"{len(points)} attempt{'s' * (len(points) != 1)}"
    best = book.best
    if best is None and book.leader is not None:
        said = nothing_faster(ended=book.run.ended)
        return f"{count}. {said}; the closest is node {book.leader.number}, {book.speedup(book.leader)}."
    if best is None:
        return f"{count}; none is the best yet."
    records = sum(point.record and point.row.number in book.won for point in points)
    rose = "set once" if records == 1 else f"raised {records} times"
    tied = sum(point.tied for point in points)
    also = f" The interval of {tied} other attempt{'s' * (tied != 1)} reaches a best before it." if tied else ""
    return f"{count}; the best was {rose} and is node {best.number}, {book.speedup(best)}.{also}"
