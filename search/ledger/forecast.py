"""What is still to come, from this run's own steps: always a range, unknown below three steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import quantiles

ENOUGH = 3


@dataclass(frozen=True)
class Range:
    """From the lower to the upper quartile of the steps seen, times what is left. `n` is the number of steps seen."""

    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Forecast:
    """For the `steps` left: seconds, device seconds, tokens and dollars. None: not known (yet)."""

    steps: int
    wall_s: Range | None = None
    device_s: Range | None = None
    tokens: Range | None = None
    usd: Range | None = None


def spread(values: Sequence[float], times: float) -> Range | None:
    """The middle half of `values` times `times`; None for fewer than three values."""
    if len(values) < ENOUGH:
        return None
    low, _, high = quantiles(values, n=4, method="inclusive")
    return Range(low * times, high * times, len(values))


def forecast(
    *,
    steps_left: int,
    concurrency: int,
    step_s: Sequence[float],
    device_s: Sequence[float],
    tokens: Sequence[int],
    usd: Sequence[Decimal],
) -> Forecast:
    """Quartiles over told steps. Time runs in `concurrency` lanes; steps whose cost is unknown are left out before."""
    lanes = max(min(concurrency, steps_left), 1)
    return Forecast(
        steps=steps_left,
        wall_s=spread(step_s, steps_left / lanes),
        device_s=spread(device_s, steps_left),
        tokens=spread(tokens, steps_left),
        usd=spread([float(cost) for cost in usd], steps_left),
    )
