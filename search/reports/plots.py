"""Where the lines of a report's pictures lie. Paths are in a box of 100 by 100, ticks in per cent. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adaexplore_site.core.plots import Axis, Tick, speedup_axis, speedup_ticks
from search.reports.aggregates import CAP
from search.reports.values import Block

LEAST_P = 0.1


@dataclass(frozen=True)
class Curve:
    """One step line: `kind` is its CSS class."""

    kind: str
    label: str
    path: str


@dataclass(frozen=True)
class Picture:
    """Step lines over two axes, and one sentence for those who do not see them."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]
    says: str


@dataclass(frozen=True)
class Bar:
    """A speedup on the axis of a block, in per cent: the point, its interval, and where 1.0 lies."""

    at: float
    low: float
    high: float
    one: float


def shares_picture(block: Block) -> Picture | None:
    """Fast@p over p, judged and audited. None without a correct kernel."""
    tops = [p for points in block.shares.values() for p, _ in points]
    if not any(tops):
        return None
    axis = speedup_axis([LEAST_P, CAP, *tops])
    curves = tuple(
        Curve(name, name, _steps([(axis.at(max(p, LEAST_P)), share) for p, share in points], end=100.0))
        for name, points in block.shares.items()
    )
    shares = tuple(Tick(round(100 * (1 - share), 1), f"{share:.0%}") for share in (0.0, 0.5, 1.0))
    says = f"Share of {len(block.lines)} problems with a speedup above p, for p from {LEAST_P:g} to {axis.high:.0f}."
    ticks = speedup_ticks(axis)
    return Picture("Fast@p", "p, speedup over eager", "problems above p", curves, ticks, shares, says)


def progress_picture(block: Block) -> Picture | None:
    """Mean over problems of min(best so far, 10) over steps. None without steps."""
    last = block.curve[-1][0] if block.curve else 0
    top = max((value for _, value in block.curve), default=0.0)
    if not last or not top:
        return None
    ceiling = top * 1.1
    points = [(100 * order / last, value / ceiling) for order, value in block.curve]
    x_ticks = tuple(Tick(100.0 * share, f"{round(share * last)}") for share in (0.0, 0.5, 1.0))
    y_ticks = tuple(Tick(round(100 - 100 * share, 1), f"{share * ceiling:.1f}×") for share in (0.0, 0.5, 1.0))
    says = f"Mean speedup of the best so far over {last} steps, each speedup at most {CAP:g}; it ends at {top:.2f}."
    curve = Curve("judged", "judged", _steps(points, end=100.0))
    return Picture("Best so far", "steps", "mean of min(best, 10)", (curve,), x_ticks, y_ticks, says)


def bars(block: Block) -> list[Bar | None]:
    """A bar per line of the block, all on one logarithmic axis."""
    ratios = [line.speedup for line in block.lines if line.speedup]
    if not ratios:
        return [None for _ in block.lines]
    ends = [end for ratio in ratios for end in (ratio.value, ratio.low, ratio.high) if end]
    axis = Axis(min(1.0, *ends) / 1.2, max(1.0, *ends) * 1.2, 2.0, 98.0)
    return [
        Bar(
            axis.at(line.speedup.value),
            axis.at(line.speedup.low or line.speedup.value),
            axis.at(line.speedup.high or line.speedup.value),
            axis.at(1.0),
        )
        if line.speedup
        else None
        for line in block.lines
    ]


def _steps(points: Sequence[tuple[float, float]], *, end: float) -> str:
    """A step line through (x in per cent, share of the height)."""
    if not points:
        return ""
    x, share = points[0]
    path = f"M{x:g} {100 - 100 * share:.2f}"
    for x, share in points[1:]:
        path += f"H{x:g}V{100 - 100 * share:.2f}"
    return f"{path}H{end:g}"
