"""How far processes of equal code put one ratio apart, and intervals that allow for it. Standard library only.

A process is lucky or not for as long as it lives: where its memory lies, which caches it shares. Samples of one pair of
processes say nothing of that, however many there are.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from judge.bench.device.statistics import CONFIDENCE, WIDEST, call_of, indifference_of
from judge.values import SpeedCall, Speedup

DOUBTFUL = 1.5
MOST_DF = 40.0  # of what is remembered of a problem: a device may change
MOST_VARIANCE = 0.12**2  # that is ever remembered: an interval is then twice as wide as before anything is known
STEPS = 400  # of the integral below, an even number


@dataclass(frozen=True)
class Luck:
    """Variance of the logarithm of a ratio between processes, and how well that is known: as if from `df` + 1 pairs."""

    df: float
    variance: float

    def __post_init__(self) -> None:
        if not (self.df > 0 and self.variance >= 0 and math.isfinite(self.df + self.variance)):
            raise ValueError("a variance is not negative, and degrees of freedom are positive")

    @classmethod
    def read(cls, row: object) -> Luck | None:
        """From JSON that another process wrote; None for anything that is no luck."""
        try:
            return cls(float(row["df"]), float(row["variance"]))  # type: ignore[index]
        except (KeyError, TypeError, ValueError, OverflowError):
            return None

    def joined(self, other: Luck, most: float = math.inf) -> Luck:
        """Both together; no more than `most` degrees of freedom are kept, so that what is new keeps a weight."""
        df = self.df + other.df
        variance = (self.df * self.variance + other.df * other.variance) / df
        return Luck(min(df, most), variance)


# Seen before either was known of a problem. On an H200 five processes of a kernel of many launches were 0.29 apart,
# wherever the scheduler had put them; on processors of their own a tenth is taken until more is known.
OF_LAUNCHES = Luck(8, 0.06**2)
OF_WORK = Luck(6, 0.004**2)


def remembered(new: Luck, known: Luck | None) -> Luck:
    """What is known of a problem after one more evaluation.

    A candidate may be as erratic as it likes: of what its processes differ by no more than DOUBTFUL times the usual is
    remembered, and never more than MOST_VARIANCE.
    """
    usual = OF_LAUNCHES if known is None else OF_LAUNCHES.joined(known)
    new = Luck(new.df, min(new.variance, DOUBTFUL * usual.variance, MOST_VARIANCE))
    return new if known is None else Luck(known.df, min(known.variance, MOST_VARIANCE)).joined(new, MOST_DF)


def luck_of(ratios: Sequence[float]) -> Luck | None:
    """What pairs of processes tell about their own spread; None for fewer than two."""
    if len(ratios) < 2:
        return None
    return Luck(len(ratios) - 1, statistics.variance(map(math.log, ratios)))


def over_processes(pairs: Sequence[Speedup], luck: Luck, typical_us: float, confidence: float = CONFIDENCE) -> Speedup:
    """The ratio that pairs of processes agree on: the geometric mean of their medians. Its interval and theirs are of
    `confidence`.

    The variance between them is that of `luck` and theirs, by degrees of freedom; what a median is uncertain by within
    its pair comes on top. Where theirs is DOUBTFUL times as large, `luck` is that of others and does not count.
    `typical_us`: time of the candidate. Raises ValueError without pairs.
    """
    logs = [math.log(one.value) for one in pairs]
    middle = statistics.fmean(logs)
    ends = 2 * normal(confidence)
    within = statistics.fmean((math.log(one.high / one.low) / ends) ** 2 for one in pairs)
    spread = Luck(luck.df, luck.variance + within)
    own = luck_of([one.value for one in pairs])  # what they differ by holds both
    if own is not None:
        spread = own if own.variance > DOUBTFUL * spread.variance else spread.joined(own)
    half = min(student(spread.df, confidence) * math.sqrt(spread.variance / len(logs)), math.log(WIDEST))
    low, value, high = (math.exp(middle + side * half) for side in (-1, 0, 1))
    first = pairs[0]
    call = call_of(low, high, indifference_of(typical_us))
    return Speedup(value, low, high, sum(one.n for one in pairs), first.basis, first.over, call)


def normal(confidence: float = CONFIDENCE) -> float:
    """Standard deviations from the middle of an interval to either end."""
    return statistics.NormalDist().inv_cdf((1 + confidence) / 2)


def contradictory(pairs: Sequence[Speedup]) -> bool:
    """Whether one pair of processes finds for sure what another excludes."""
    calls = {one.call for one in pairs}
    return SpeedCall.FASTER in calls and SpeedCall.SLOWER in calls


def apart(pairs: Sequence[Speedup]) -> bool:
    """Whether pairs of processes differ by more than the widest of their own intervals."""
    values = [one.value for one in pairs]
    return max(values) - min(values) > max(one.high - one.low for one in pairs)


@cache
def student(df: float, confidence: float = CONFIDENCE) -> float:
    """Quantile of Student's t: within it of zero lies `confidence`. With t = sqrt(df) tan(a) the density is that of a,
    cos(a) ** (df - 1)."""
    whole = _integral(df, math.pi / 2)
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _integral(df, middle) < confidence * whole else (low, middle)
    return math.sqrt(df) * math.tan(low)


def _integral(df: float, until: float) -> float:
    """Of cos(a) ** (df - 1) from 0 to `until`, by Simpson's rule."""
    step = until / STEPS
    ends = 1.0 + float(max(math.cos(until), 0.0) ** (df - 1))
    rest = sum((4.0 if n % 2 else 2.0) * float(math.cos(n * step) ** (df - 1)) for n in range(1, STEPS))
    return (ends + rest) * step / 3
