"""Axes of a plot and where things lie in it. Pure; templates draw the SVG.

Widths are per cent of the picture, so that it fits every screen while its text keeps its size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
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


ROOF_HEIGHT = 240
ROOF_PAD = 14.0
LABEL_GAP = 15.0
MOST_TICKS = 400  # samples drawn in one strip; more are thinned evenly


@dataclass(frozen=True)
class Strip:
    """The samples of one subject as ticks, its interval as a bar, its median as a mark; per cent of the width."""

    label: str
    kind: str  # CSS class
    ticks: tuple[float, ...]
    low: float
    high: float
    median: float


@dataclass(frozen=True)
class Strips:
    """Subjects under each other over one logarithmic axis."""

    rows: tuple[Strip, ...]
    axis: tuple[Tick, ...]


@dataclass(frozen=True)
class Times:
    """What a strip is drawn from, in microseconds."""

    label: str
    kind: str
    samples_us: Sequence[float]
    low_us: float
    median_us: float
    high_us: float


def strips(subjects: Sequence[Times], label: Callable[[float], str]) -> Strips | None:
    """None without subjects."""
    if not subjects:
        return None
    values = [value for one in subjects for value in (*one.samples_us, one.low_us, one.high_us)]
    axis = Axis.around(values, 1.06, 1.0, 99.0)
    rows = tuple(
        Strip(
            one.label,
            one.kind,
            tuple(axis.at(value) for value in thinned(sorted(one.samples_us))),
            axis.at(one.low_us),
            axis.at(one.high_us),
            axis.at(one.median_us),
        )
        for one in subjects
    )
    return Strips(rows, axis.ticks(label, 4))


def thinned(values: Sequence[float], most: int = MOST_TICKS) -> list[float]:
    """At most `most` of them, evenly, the first and the last kept."""
    if len(values) <= most:
        return list(values)
    return [values[round(number * (len(values) - 1) / (most - 1))] for number in range(most)]


@dataclass(frozen=True)
class Mark:
    """A labelled time in a roofline plot. `y` is where it lies, `label_y` where its text has room."""

    label: str
    kind: str
    y: float
    label_y: float


@dataclass(frozen=True)
class Line:
    x1: float
    y1: float
    x2: float
    y2: float


@dataclass(frozen=True)
class RooflinePlot:
    """Achieved FLOP/s over FLOP per byte: the roof of a GPU, and the times of one problem on its line.

    x in per cent, y in pixels from the top of `height`.
    """

    height: int
    slope: Line
    flat: Line
    x: float  # of the problem
    bound_y: float
    marks: tuple[Mark, ...]
    rug: tuple[float, ...]  # y of every other kernel
    x_axis: tuple[Tick, ...]
    y_axis: tuple[Tick, ...]
    right: bool  # labels stand to the right of the line


@dataclass(frozen=True)
class Roof:
    """What is known of a GPU and a problem: FLOPs, bytes, bandwidth in GB/s, peak in TFLOP/s."""

    flops: float
    bytes: float
    gb_s: float
    tflops: float

    @property
    def intensity(self) -> float:
        return self.flops / self.bytes

    @property
    def ridge(self) -> float:
        """FLOP per byte from which the peak bounds."""
        return self.tflops * 1e3 / self.gb_s

    def reach(self, intensity: float) -> float:
        """FLOP/s that the roof allows."""
        return min(self.tflops * 1e12, intensity * self.gb_s * 1e9)


def roofline_plot(
    roof: Roof, named: Sequence[tuple[str, str, float]], others_us: Sequence[float], label: Callable[[float], str]
) -> RooflinePlot | None:
    """`named` are (label, kind, microseconds). None where nothing is computed: there is no line to stand on."""
    if min(roof.flops, roof.bytes, roof.gb_s, roof.tflops) <= 0:
        return None
    rates = [roof.flops / (us * 1e-6) for _, _, us in named] + [roof.flops / (us * 1e-6) for us in others_us]
    x_axis = Axis.around([roof.intensity, roof.ridge], 8.0)
    top = roof.reach(roof.ridge)
    y_axis = Axis.around([top, roof.reach(roof.intensity), *rates], 2.0, ROOF_HEIGHT - ROOF_PAD, ROOF_PAD)
    ridge_x = x_axis.at(roof.ridge)
    start = max(x_axis.low, y_axis.low / (roof.gb_s * 1e9))
    return RooflinePlot(
        height=ROOF_HEIGHT,
        slope=Line(x_axis.at(start), y_axis.at(roof.reach(start)), ridge_x, y_axis.at(top)),
        flat=Line(ridge_x, y_axis.at(top), 100.0, y_axis.at(top)),
        x=x_axis.at(roof.intensity),
        bound_y=y_axis.at(roof.reach(roof.intensity)),
        marks=_spread([(text, kind, y_axis.at(roof.flops / (us * 1e-6))) for text, kind, us in named]),
        rug=tuple(y_axis.at(roof.flops / (us * 1e-6)) for us in thinned(sorted(others_us), 120)),
        x_axis=x_axis.ticks(_plain, 4),
        y_axis=y_axis.ticks(label, 5),
        right=x_axis.at(roof.intensity) < 55,
    )


def _spread(rows: list[tuple[str, str, float]]) -> tuple[Mark, ...]:
    """Marks from top to bottom with their labels pushed apart, and back up where they would leave the picture."""
    ordered = sorted(rows, key=lambda row: row[2])
    places: list[float] = []
    for _, _, y in ordered:
        places.append(max(y, places[-1] + LABEL_GAP) if places else y)
    floor = ROOF_HEIGHT - ROOF_PAD / 2
    for number in range(len(places) - 1, -1, -1):
        places[number] = min(places[number], floor)
        floor = places[number] - LABEL_GAP
    return tuple(Mark(label, kind, y, round(place, 2)) for (label, kind, y), place in zip(ordered, places, strict=True))


def _plain(value: float) -> str:
    return f"{value:g}"
