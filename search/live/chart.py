"""The speedup chart without scripts: points of a plain SVG on a log2 axis, and a caption that says what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from adaexplore_site.core.plots import Tick, speedup_axis, speedup_ticks
from search.algorithm.ranking import rank
from search.records.node_styles import STYLES

WIDTH, HEIGHT = 400, 210
WON = 2  # in column a
MAX_DOTS = 400  # beyond, every second, third, ... point is drawn; new bests always are
LEFT, RIGHT, TOP, BOTTOM = 40, 8, 10, 22


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    style: str
    number: int
    record: bool  # a new best when it was completed


@dataclass(frozen=True)
class Chart:
    """Places in a box of WIDTH x HEIGHT. `step` is the path of the fastest so far that may be a best, empty before the
    first one."""

    dots: tuple[Dot, ...]
    ticks: tuple[Tick, ...]
    step: str
    attempts: int
    records: tuple[int, ...]  # numbers of the nodes that were the best when completed: they beat PyTorch
    width: int = WIDTH
    height: int = HEIGHT


def chart_of(columns: dict[str, list[Any]]) -> Chart:
    """From node columns; attempts to the right in completion order."""
    completed = sorted(
        (order, index) for index, order in enumerate(columns["o"]) if order is not None and columns["k"][index] != 0
    )
    speedups = [columns["x"][index] for _, index in completed]
    known = [value for value in speedups if value]
    axis = speedup_axis(known, HEIGHT - BOTTOM, TOP)
    span = max(1, len(completed))
    stride = 1 + len(completed) // MAX_DOTS

    def at_x(place: int) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (place + 1) / (span + 1), 1)

    dots: list[Dot] = []
    records: list[int] = []
    path: list[str] = []
    best: tuple[float, int] | None = None  # of all that may be a best
    top: tuple[float, int] | None = None  # of those that beat PyTorch
    for place, (_, index) in enumerate(completed):
        value, number = columns["x"][index], columns["n"][index]
        may, won = bool(columns["a"][index]), columns["a"][index] == WON
        record = won and (top is None or rank(value, number) > top)
        if record:
            top = rank(value, number)
            records.append(number)
        if rose := may and (best is None or rank(value, number) > best):
            best = rank(value, number)
            path.append(f"{'H' if path else 'M'}{at_x(place)}{'V' if path else ' '}{axis.at(value)}")
        y = axis.at(value) if value else HEIGHT - BOTTOM + 4
        if not (record or rose) and place % stride:
            continue
        dots.append(Dot(at_x(place), y, STYLES[columns["s"][index]], number, record))
    if path:
        path.append(f"H{WIDTH - RIGHT}")
    return Chart(tuple(dots), speedup_ticks(axis), "".join(path), len(completed), tuple(records))
