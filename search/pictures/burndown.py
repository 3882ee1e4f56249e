"""Burn-down: what is left of each limited budget, and when the search's own pace would use it up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.core.plots import Linear, time_unit
from judge.templatetags.units import duration
from search.ledger.books import books_of, limits_of
from search.ledger.limits import Range, limit_amounts
from search.ledger.spending import NOTHING
from search.live.panels import TITLES, amount_text, burn_down, completed_of, forecast_of
from search.pictures.book import Book
from search.pictures.values import Cell, Panel, Path, Picture, Rule, Table

HEADS = {
    "steps": _("Completed steps"),
    "at_s": _("Seconds since the start"),
    "evaluations": _("Evaluations"),
    "device_s": _("Device seconds"),
    "tokens": _("Tokens"),
    "usd": _("US dollars"),
}
COLUMNS = {"evaluations": "evaluations", "device_ms": "device_s", "tokens": "tokens", "usd": "usd"}
MOST = 400  # points of a line


@dataclass(frozen=True)
class Track:
    """What is left over completed steps or seconds: points, the limit, and the range in which it ends."""

    title: str
    x_name: str
    points: Sequence[tuple[float, float]]
    limit: float
    x_says: Callable[[float], str]
    y_says: Callable[[float], str]
    ahead: tuple[tuple[float, float], ...] = ()  # corners of the forecast
    end: float = 0.0  # x of the last corner, or of the budget's end


def burn_down_picture(book: Book) -> Picture:
    """One panel per limited budget; what has no limit is said in a note."""
    run = book.run
    if book.imported:
        return Picture(gettext("Imported searches have no budget, so there is nothing to draw."), timed=False)
    limits, (ledger, calls) = limits_of(run), books_of(run.pk)
    columns = burn_down(run, completed_of(run), book.calls)
    table = _table(book, columns)
    bounds = limit_amounts(limits)
    coming = forecast_of(run, limits, ledger, billed=calls != NOTHING)
    told = len(columns["steps"])
    if not told:
        return Picture(gettext("No step has ended yet, so nothing has been used."), table=table, timed=False)
    tracks = [_steps(columns, limits.steps, coming.wall_s)]
    ranges = {"device_ms": coming.device_s, "tokens": coming.tokens, "usd": coming.usd}
    alarms, notes = [], []
    for name, column in COLUMNS.items():
        limit = bounds.get(name)
        if limit is None:
            spent = getattr(ledger.spent, name)
            if spent:
                notes.append(
                    gettext("No limit of %(kind)s: %(amount)s used.")
                    % {"kind": TITLES[name].lower(), "amount": amount_text(name, spent)}
                )
            continue
        ceiling = limit / 1000 if name == "device_ms" else float(limit)
        span = ranges.get(name)
        used = [float(value) for value in columns[column]]
        tracks.append(_budget(name, used, ceiling, span, coming.steps))
        if span is not None and used[-1] + span.high > ceiling:
            if used[-1] + span.low > ceiling:
                text = gettext(
                    "%(kind)s: at this search's pace the limit of %(limit)s is reached before the last step."
                )
            else:
                text = gettext(
                    "%(kind)s: at this search's pace the limit of %(limit)s may be reached before the last step."
                )
            alarms.append(text % {"kind": TITLES[name], "limit": amount_text(name, limit)})
    if calls.untold:
        text = ngettext(
            "%(count)d call without a count of tokens: the actual use is higher than shown.",
            "%(count)d calls without a count of tokens: the actual use is higher than shown.",
            calls.untold,
        )
        notes.append(text % {"count": calls.untold})
    if calls.unpriced:
        text = ngettext(
            "%(count)d call unpriced: the actual use is higher than shown.",
            "%(count)d calls unpriced: the actual use is higher than shown.",
            calls.unpriced,
        )
        notes.append(text % {"count": calls.unpriced})
    if coming.steps and coming.wall_s is None:
        notes.append(gettext("No forecast yet: it needs three completed steps."))
    says = gettext(
        "%(told)s of %(steps)s steps completed. The solid line is what is left; the wedge is a forecast from the "
        "interquartile range of this search's own steps."
    ) % {"told": told, "steps": limits.steps}
    return Picture(says, tuple(map(_panel, tracks)), table=table, notes=notes, alarms=alarms, timed=False)


def _first_unknown(book: Book, what: str) -> int:
    """The place of the first completed step with a call without a count or price; behind the last if there is none."""
    gaps = {pk for pk, calls in book.calls.items() if getattr(calls, what)}
    return next((place for place, row in enumerate(book.told) if row.id in gaps), len(book.told))


def _table(book: Book, columns: dict[str, Sequence[Any]]) -> Table:
    """From the first call without a count or a price on, the sum is unknown: None."""
    gone = {"tokens": _first_unknown(book, "untold"), "usd": _first_unknown(book, "unpriced")}

    def cells(place: int) -> tuple[Cell, ...]:
        return tuple(None if place >= gone.get(name, place + 1) else columns[name][place] for name in HEADS)

    return Table(HEADS, range(len(book.told)), cells)


def _steps(columns: dict[str, Sequence[Any]], limit: int, span: Range | None) -> Track:
    points = [(0.0, float(limit))]
    points += [
        (at, float(limit - step)) for step, at in zip(columns["steps"], columns["at_s"], strict=True) if at is not None
    ]
    last = points[-1]
    ahead = () if span is None or not last[1] else ((last[0] + span.low, 0.0), (last[0] + span.high, 0.0))
    end = ahead[-1][0] if ahead else last[0]
    return Track(
        gettext("Steps left"), gettext("time since the start"), points, float(limit), duration, _whole, ahead, end
    )


def _budget(name: str, used: list[float], limit: float, span: Range | None, steps_left: int) -> Track:
    points = [(0.0, limit)] + [(float(step), limit - value) for step, value in enumerate(used, start=1)]
    end = float(len(used) + steps_left)
    left = limit - used[-1]
    ahead = () if span is None or not steps_left else ((end, left - span.low), (end, left - span.high))
    says = {"device_ms": duration, "usd": lambda value: f"${value:.2f}"}.get(name, _whole)
    return Track(
        gettext("%(kind)s left") % {"kind": TITLES[name]},
        gettext("completed steps"),
        points,
        limit,
        _whole,
        says,
        ahead,
        end,
    )


def _panel(track: Track) -> Panel:
    along = Linear(0.0, max(track.end, track.points[-1][0]) or 1.0, 1.0, 99.0)
    floor = min(0.0, *(y for _, y in (*track.points, *track.ahead)))
    up = Linear(floor, track.limit * 1.04, 98.0, 4.0)
    stride = 1 + len(track.points) // MOST
    kept = [point for place, point in enumerate(track.points) if not place % stride or place == len(track.points) - 1]
    path = f"M{along.at(kept[0][0])} {up.at(kept[0][1])}" + "".join(f"H{along.at(x)}V{up.at(y)}" for x, y in kept[1:])
    paths = [Path("line-left", path)]
    last = track.points[-1]
    if track.ahead:
        corners = "".join(f"L{along.at(x)} {up.at(y)}" for x, y in track.ahead)
        paths.insert(0, Path("area-forecast", f"M{along.at(last[0])} {up.at(last[1])}{corners}Z"))
    if track.x_says is duration:
        says = gettext("%(title)s: %(left)s of %(limit)s after %(x)s")
    else:
        says = gettext("%(title)s: %(left)s of %(limit)s after %(x)s steps")
    values = {"left": track.y_says(last[1]), "limit": track.y_says(track.limit), "x": track.x_says(last[0])}
    return Panel(
        title=track.title,
        says=says % {"title": track.title, **values},
        height=150,
        x_name=track.x_name,
        x_ticks=along.ticks(track.x_says, 4, time_unit(along.high) if track.x_says is duration else 1.0),
        y_ticks=up.ticks(track.y_says, 4, time_unit(up.high) if track.y_says is duration else 1.0),
        paths=tuple(paths),
        rules=(Rule.across("rule-limit", up.at(0.0)),),
    )


def _whole(value: float) -> str:
    return f"{value:,.0f}"
