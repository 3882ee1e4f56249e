"""Means over seeds with bootstrap intervals, and whether a paired difference can be told from none."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

RESAMPLES = 2000
LEVEL = 0.95
SAME = "not distinguishable"


@dataclass(frozen=True)
class Estimate:
    """A mean over `n` seeds with its 95 % bootstrap interval."""

    value: float
    low: float
    high: float
    n: int

    def __post_init__(self) -> None:
        if self.n < 1 or not self.low <= self.value <= self.high:
            raise ValueError(f"an estimate lies within its interval: {self.low} {self.value} {self.high}, n={self.n}")

    @property
    def verdict(self) -> str:
        """Of a difference: better, worse, or not distinguishable when the interval covers 0."""
        return "better" if self.low > 0 else "worse" if self.high < 0 else SAME

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), **{name: round(getattr(self, name), 6) for name in ("value", "low", "high")}}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return cls(data["value"], data["low"], data["high"], data["n"])


@lru_cache(maxsize=2)
def draws(seeds: int) -> Floats:
    """How often each seed is taken in each resample, as shares: resamples x seeds. The same at every call."""
    counts = np.random.default_rng(seeds).multinomial(seeds, [1 / seeds] * seeds, size=RESAMPLES)
    return np.asarray(counts / seeds, dtype=np.float64)


def estimate(values: Floats) -> Estimate:
    """The mean over the seeds, with the interval that resampling seeds gives it. Values: one per seed."""
    low, high = np.quantile(draws(len(values)) @ values, _TAILS)
    mean = float(values.mean())
    return Estimate(mean, min(float(low), mean), max(float(high), mean), len(values))


def band(curves: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, low and high of curves over seeds: seeds x points in, points out."""
    low, high = np.quantile(draws(len(curves)) @ curves, _TAILS, axis=0)
    return curves.mean(axis=0), low, high


_TAILS = ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
