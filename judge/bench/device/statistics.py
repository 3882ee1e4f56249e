"""Medians with order-statistic intervals: no assumption about how times are spread. Standard library only."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from judge.values import Basis, SpeedCall, Speedup, Subject, Timing

CONFIDENCE = 0.998  # of one look; five looks at growing data then err in at most 1 % of all comparisons
LOOKS = (16, 32, 64, 128, 256)  # pairs after which a comparison may stop
INDIFFERENCE = 0.01  # differences below this are none
TICK_US = 0.032  # CUDA events count in these: times of a few microseconds differ by whole percents or not at all
TICKS = 2  # that two equal times may lie apart, one at either end


WIDEST = 1000.0  # times the value, up and down: an interval that says less says nothing


def bounded(low: float, value: float, high: float) -> tuple[float, float]:
    """Ends of an interval of a ratio that are at most WIDEST away from its value."""
    return max(low, value / WIDEST), min(high, value * WIDEST)


def interval_ranks(n: int, confidence: float = CONFIDENCE) -> tuple[int, int]:
    """0-based ranks (low, high) whose order statistics enclose the median with at least `confidence`.

    Binomial(n, 1/2): P(X_(low) <= median <= X_(high)). Below eleven samples the whole range is all there is.
    """
    low = 0
    tail = 0.0
    while low < n // 2:
        tail += math.comb(n, low) * 0.5**n
        if 2 * tail > 1 - confidence:
            break
        low += 1
    low = max(0, low - 1)
    return low, n - 1 - low


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float, float]:
    """(low, median, high). Raises ValueError without samples."""
    if not samples:
        raise ValueError("no samples")
    ordered = sorted(samples)
    low, high = interval_ranks(len(ordered), confidence)
    return ordered[low], statistics.median(ordered), ordered[high]


def timing_of(subject: Subject, samples_us: Sequence[float], method: str, **detail: object) -> Timing:
    """A measured Timing from raw samples in microseconds."""
    low, middle, high = median_interval(samples_us)
    return Timing(subject, Basis.MEASURED, method, tuple(samples_us), middle, low, high, dict(detail))


def call_of(low: float, high: float, indifference: float = INDIFFERENCE) -> SpeedCall:
    """What an interval of baseline/candidate ratios says where `indifference` is no difference."""
    if low > 1 + indifference:
        return SpeedCall.FASTER
    if high < 1 - indifference:
        return SpeedCall.SLOWER
    if low >= 1 - indifference and high <= 1 + indifference:
        return SpeedCall.SAME
    return SpeedCall.AMBIGUOUS


def indifference_of(typical_us: float) -> float:
    """1 %, or what the clock cannot tell apart where that is more: 3.2 % at 2 microseconds."""
    return max(INDIFFERENCE, TICKS * TICK_US / typical_us) if typical_us > 0 else INDIFFERENCE


def ratios_of(baseline_us: Sequence[float], candidate_us: Sequence[float]) -> list[float]:
    """Ratios of pairs measured side by side. Raises ValueError where one has more of them."""
    return [b / c for b, c in zip(baseline_us, candidate_us, strict=True)]


def paired_speedup(
    baseline_us: Sequence[float],
    candidate_us: Sequence[float],
    over: Subject = Subject.EAGER,
    *,
    confidence: float = CONFIDENCE,
) -> Speedup:
    """Median of the ratios of pairs measured side by side, with its interval and what that says."""
    ratios = ratios_of(baseline_us, candidate_us)
    low, middle, high = median_interval(ratios, confidence)
    low, high = bounded(low, middle, high)
    call = call_of(low, high, indifference_of(statistics.median(candidate_us)))
    return Speedup(middle, low, high, len(ratios), Basis.MEASURED, over, call)


def joint_confidence(count: int) -> float:
    """Of each of `count` intervals, so that all of them hold at once with CONFIDENCE (Bonferroni)."""
    return 1 - (1 - CONFIDENCE) / count


def weighted_mean(parts: Sequence[tuple[float, Speedup]], indifference: float = INDIFFERENCE) -> Speedup:
    """Weighted geometric mean of speedups of one basis over one subject: exp(sum w ln s / sum w).

    Its ends are the same mean of the ends, so it holds wherever all of theirs do, dependent or not; `n` is the
    smallest. A modelled one makes no call. Raises ValueError without parts.
    """
    if not parts:
        raise ValueError("no speedups")
    first = parts[0][1]
    if len(parts) == 1:
        return first
    largest = max(weight for weight, _ in parts)
    shares = [weight / largest for weight, _ in parts]  # their sum is finite, whatever the weights are

    def mean(ends: Sequence[float]) -> float:
        logs = math.fsum(share * math.log(end) for share, end in zip(shares, ends, strict=True))
        return math.exp(logs / math.fsum(shares))

    low, value, high = (mean([getattr(one, end) for _, one in parts]) for end in ("low", "value", "high"))
    call = call_of(low, high, indifference) if first.basis is Basis.MEASURED else SpeedCall.NONE
    return Speedup(
        value, min(low, value), max(high, value), min(one.n for _, one in parts), first.basis, first.over, call
    )


def unpaired_speedup(baseline: Timing, candidate: Timing) -> Speedup:
    """Ratio of two medians that were not measured side by side; the interval takes the worst of both."""
    value = baseline.median_us / candidate.median_us
    return Speedup(
        value,
        *bounded(baseline.low_us / candidate.high_us, value, baseline.high_us / candidate.low_us),
        min(baseline.n, candidate.n),
        baseline.basis,
        baseline.subject,
    )


def kept_blocks(clocks_mhz: Sequence[float], tolerance: float = 0.02, share: float = 0.2) -> list[int]:
    """Indices of the blocks measured at the usual clock: at most `share` of them, the furthest off, are left out.

    A clock of 0 is unknown and counts as usual.
    """
    known = [clock for clock in clocks_mhz if clock > 0]
    if not known:
        return list(range(len(clocks_mhz)))
    usual = statistics.median(known)
    off = {n: abs(clock / usual - 1) for n, clock in enumerate(clocks_mhz) if clock > 0}
    strange = sorted((n for n, away in off.items() if away > tolerance), key=lambda n: -off[n])
    dropped = set(strange[: int(share * len(clocks_mhz))])
    return [n for n in range(len(clocks_mhz)) if n not in dropped]
