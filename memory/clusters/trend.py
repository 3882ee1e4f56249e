"""Counts of one cluster over time as bars of a small picture. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BARS, WIDTH, HEIGHT = 24, 96.0, 24.0
LEAST_BAR = 1.5


@dataclass(frozen=True)
class Bar:
    """In the 96 x 24 box."""

    x: float
    y: float
    height: float
    count: int


@dataclass(frozen=True)
class Trend:
    """`bars` of equal spans between the first and the last failure shown; `says` is the same in words."""

    bars: tuple[Bar, ...]
    says: str

    @property
    def width(self) -> float:
        return WIDTH / BARS - 0.8


def trend_of(at: Sequence[float], low: float, high: float) -> Trend | None:
    """Bars of the places `at` on the axis from `low` to `high`. None where all lie at one place."""
    if not at or high <= low:
        return None
    counts = [0] * BARS
    for place in at:
        counts[min(BARS - 1, int((place - low) / (high - low) * BARS))] += 1
    most = max(counts)
    bars = tuple(
        _bar(number, count, max(LEAST_BAR, HEIGHT * count / most)) for number, count in enumerate(counts) if count
    )
    half = BARS // 2
    return Trend(bars, f"{sum(counts[:half])} in the first half, {sum(counts[half:])} in the second")


def _bar(number: int, count: int, height: float) -> Bar:
    return Bar(x=round(number * WIDTH / BARS, 2), y=round(HEIGHT - height, 2), height=round(height, 2), count=count)
