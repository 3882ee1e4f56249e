"""When a comparison of times has pairs enough, and why it ends. Standard library only.

A win is called at LOOKS only, by an interval of CONFIDENCE. Giving a candidate up needs less: at CHECKS, and at every
look, one that surely does not reach its bar by an interval of SURE is measured no further. That cannot make a win.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from judge.bench.device.statistics import LOOKS, indifference_of, median_interval, paired_speedup, ratios_of
from judge.values import SpeedCall

CHECKS = (10, 14, 20, 28, 40, 56, 80, 112, 160, 224)  # pairs after which a candidate may be given up
SURE = 0.95  # of the interval by which it is: one end of it is off in at most 2.5 % of such comparisons
ENOUGH_S = 0.5  # a comparison with eager stops after this: nobody asks whether 1.003 is more than 1
RIVAL_S = 2.0  # one with the best so far may take longer
CLOSE = 0.05  # relative half width of an interval that is good enough to print
BEATEN = 0.1  # the same for one that is slower than the best so far, whatever its interval
PART = 0.02  # the same for a part of a mean over cases, which may be won by little
AT_LEAST = 8  # pairs of a problem so slow that the first look would not fit the limit

DECIDED = "the difference is clear"
PRECISE = "the interval is narrow"
NO_WIN = "it is surely no faster than the best so far"
NO_GAIN = "it is surely no faster than eager"
BELOW = "its speedup is surely below that of the best so far"
MEETS = "it may beat the best so far and is measured beside it"
AGAIN = "it is measured again in fresh processes"
TIME = "the time for it is used up"
MOST = "no more pairs are taken"


def cannot_exceed(baseline_us: Sequence[float], candidate_us: Sequence[float], bar: float) -> bool:
    """Whether the median of the ratios baseline/candidate is surely no more than `bar`."""
    return median_interval(ratios_of(baseline_us, candidate_us), SURE)[2] <= bar


def why_enough(
    mine_us: Sequence[float],
    eager_us: Sequence[float] | None,
    rival_us: Sequence[float] | None = None,
    *,
    beat: float | None,
    elapsed_s: float,
    budget_s: float,
    screening: bool = False,
    part: bool = False,
    gate: bool = False,
) -> str:
    """Why no more pairs are needed; empty while they are. Times in microseconds, pairs at the same places.

    `eager_us`: None for a side that is measured alone. `rival_us`: the best so far. `beat`: its speedup over eager;
    infinity where nobody asks who is the best. `screening`: what may reach `beat` is measured beside the best next, and
    everything again where there is none.
    `part`: of a mean over cases, so that each ratio must be known whoever wins; with `gate` one that is surely slower
    than the best is not measured elsewhere.
    """
    pairs = len(mine_us)
    if pairs >= LOOKS[-1]:
        return MOST
    if pairs >= AT_LEAST and elapsed_s >= budget_s:
        return TIME
    look = pairs in LOOKS
    if not look and pairs not in CHECKS:
        return ""
    if eager_us is None:
        return PRECISE if look and pairs >= LOOKS[1] else ""
    if part:
        found_part = _as_part(mine_us, eager_us, rival_us, look=look, gate=gate)
        return found_part or (TIME if elapsed_s >= RIVAL_S else "")
    if rival_us is not None:
        return _beside_rival(mine_us, rival_us, look) or (TIME if elapsed_s >= RIVAL_S else "")
    late = elapsed_s >= ENOUGH_S
    if screening:
        return _screened(mine_us, eager_us, beat, last=look or late)
    return _beside_eager(mine_us, eager_us, beat, look) or (TIME if late else "")


def _beside_rival(mine_us: Sequence[float], rival_us: Sequence[float], look: bool) -> str:
    if look and paired_speedup(rival_us, mine_us).call is not SpeedCall.AMBIGUOUS:
        return DECIDED
    return NO_WIN if cannot_exceed(rival_us, mine_us, _no_difference(mine_us)) else ""


def _as_part(
    mine_us: Sequence[float], eager_us: Sequence[float], rival_us: Sequence[float] | None, *, look: bool, gate: bool
) -> str:
    if gate and rival_us is not None and paired_speedup(rival_us, mine_us).call is SpeedCall.SLOWER:
        return NO_WIN
    found = [paired_speedup(other_us, mine_us) for other_us in (eager_us, rival_us) if other_us is not None]
    return PRECISE if look and all(one.high - one.low < 2 * PART * one.value for one in found) else ""


def _screened(mine_us: Sequence[float], eager_us: Sequence[float], beat: float | None, *, last: bool) -> str:
    if beat is not None and cannot_exceed(eager_us, mine_us, beat):
        return BELOW if last or _is_below(mine_us, eager_us, beat) else ""
    if beat is None:
        return AGAIN
    low = median_interval(ratios_of(eager_us, mine_us), SURE)[0]
    return MEETS if last or low >= beat else ""


def _beside_eager(mine_us: Sequence[float], eager_us: Sequence[float], beat: float | None, look: bool) -> str:
    if _is_below(mine_us, eager_us, beat):
        return BELOW
    found = paired_speedup(eager_us, mine_us)
    if found.high - found.low >= 2 * CLOSE * found.value:
        return ""
    if beat == math.inf:
        return PRECISE
    if look and found.call is not SpeedCall.AMBIGUOUS:
        return DECIDED
    shown = len(mine_us) >= LOOKS[0]  # it may still be a best that nothing is compared with: its time is published
    return NO_GAIN if shown and cannot_exceed(eager_us, mine_us, _no_difference(mine_us)) else ""


def _is_below(mine_us: Sequence[float], eager_us: Sequence[float], beat: float | None) -> bool:
    """Whether it is surely below `beat`, and known well enough to be placed among others that are."""
    if beat is None or beat == math.inf or not cannot_exceed(eager_us, mine_us, beat):
        return False
    low, value, high = median_interval(ratios_of(eager_us, mine_us), SURE)
    return high - low < 2 * BEATEN * value


def _no_difference(typical_us: Sequence[float]) -> float:
    return 1 + indifference_of(statistics.median(typical_us))
