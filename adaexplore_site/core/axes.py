"""Axes of pictures: where a value lies, and which round values are named. Pure; all pictures use these.

A speedup always lies on the same scale: a logarithmic axis between whole powers of two, with 1.0 on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

CLOSE = 5.0  # a range below this factor gets even ticks


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis from `low` to `high` (positive), laid out from `start` to `end`."""

    low: float
    high: float
    start: float = 0.0
    end: float = 100.0

    def __post_init__(self) -> None:
        if not 0 < self.low < self.high < math.inf:
            raise ValueError("an axis runs from a positive value to a larger one")

    def at(self, value: float) -> float:
        """The place of a value; beyond the ends stays at the end."""
        share = math.log(min(max(value, self.low), self.high) / self.low) / math.log(self.high / self.low)
        return round(self.start + share * (self.end - self.start), 2)

    def ticks(self, label: Callable[[float], str], most: int = 6) -> tuple[Tick, ...]:
        """Round values inside the range, at most `most` of them."""
        values = _even(self.low, self.high, most) if self.high / self.low < CLOSE else _decades(self.low, self.high)
        while len(values) > most:
            values = values[::2]
        return tuple(Tick(self.at(value), label(value)) for value in values)

    @classmethod
    def around(cls, values: Iterable[float], margin: float, start: float = 0.0, end: float = 100.0) -> Axis:
        """An axis that holds all values with a factor of `margin` on either side."""
        found = [value for value in values if value > 0 and math.isfinite(value)]
        return cls(min(found) / margin, max(found) * margin, start, end)


def _decades(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, ... or whole decades where those would be many."""
    steps = (1, 2, 5) if high / low < 200 else (1,)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    values = [step * 10.0**power for power in range(first, last + 1) for step in steps]
    return [value for value in values if low <= value <= high]


def _even(low: float, high: float, most: int) -> list[float]:
    unit = 10.0 ** math.floor(math.log10((high - low) / most))
    for factor in (1, 2, 5, 10, 20):
        step = unit * factor
        values = [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
        if len(values) <= most:
            return values
    return []


@dataclass(frozen=True)
class Linear:
    """A linear axis from `low` to `high`, laid out from `start` to `end`."""

    low: float
    high: float
    start: float = 0.0
    end: float = 100.0

    def __post_init__(self) -> None:
        if not -math.inf < self.low < self.high < math.inf:
            raise ValueError("an axis runs from a value to a larger one")

    def at(self, value: float) -> float:
        """The place of a value; beyond the ends stays at the end."""
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 2)

    def ticks(self, label: Callable[[float], str], most: int = 5, unit: float = 1.0) -> tuple[Tick, ...]:
        """Round multiples of `unit` inside the range, at most `most` of them."""
        values = [unit * value for value in _even(self.low / unit, self.high / unit, most)]
        return tuple(Tick(self.at(value), label(value)) for value in values)


def time_unit(seconds: float) -> float:
    """The unit in which a stretch of time has round ticks, in seconds: second, minute, hour or day."""
    return next((unit for unit in (86400.0, 3600.0, 60.0) if seconds >= 2 * unit), 1.0)


def speedup_axis(values: Iterable[float], start: float = 0.0, end: float = 100.0) -> Axis:
    """The one scale of speedups: from a power of two to a power of two, 1.0 and all values on it."""
    found = [value for value in values if value > 0 and math.isfinite(value)]
    low = math.floor(math.log2(min([*found, 1.0])))
    high = math.ceil(math.log2(max([*found, 2.0])))
    return Axis(2.0**low, 2.0**high, start, end)


def speedup_ticks(axis: Axis, most: int = 6) -> tuple[Tick, ...]:
    """Powers of two on it, about `most`, always with 1x among them."""
    low, high = round(math.log2(axis.low)), round(math.log2(axis.high))
    step = max(1, math.ceil((high - low) / (most - 1)))
    return tuple(Tick(axis.at(2.0**power), power_label(power)) for power in range(low, high + 1) if not power % step)


def power_label(power: int) -> str:
    """`8×`, `1×`, `1/4×`: a power of two as a speedup."""
    return f"{2**power}×" if power >= 0 else f"1/{2**-power}×"
