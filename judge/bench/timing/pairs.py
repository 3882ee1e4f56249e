"""What is published of measurements in fresh processes: ratios whose intervals allow for the luck of processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from judge.bench.device.luck import MOST_DF, OF_LAUNCHES, OF_WORK, Luck, apart, contradictory, luck_of, over_processes
from judge.bench.device.statistics import CONFIDENCE
from judge.bench.timing.stage import Measured
from judge.values import Finding, SpeedCall, Speedup


def published(seen: Sequence[Measured], *, gaps: bool, known: Luck | None = None) -> Measured:
    """The last measurement, its ratios over all that count. The first one chose the candidate for more and counts only
    where there is no other, or where it contradicts them.

    `gaps`: whether calls wait for their launches; else an interval of the last pair stands as it is, as long as the
    pairs agree. `known`: the luck of processes seen with this problem before.
    """
    found = replace(seen[-1], findings=list(seen[-1].findings))
    for name in ("speedup", "rival"):
        pairs = [ratio for one in seen if (ratio := getattr(one, name)) is not None]
        if len(pairs) == len(seen):
            told = agreed(pairs, median(found.candidate.samples_us), gaps=gaps, known=known)
            tell(found, name, pairs, told)
    return found


def agreed(
    pairs: Sequence[Speedup],
    typical_us: float,
    *,
    gaps: bool,
    known: Luck | None = None,
    confidence: float = CONFIDENCE,
) -> Speedup:
    """The one ratio of pairs of processes, whose intervals are of `confidence`; the others as in `published`.
    `typical_us`: time of the candidate."""
    if not (gaps or apart(pairs)):
        return pairs[-1]
    luck = OF_LAUNCHES if gaps else OF_WORK
    luck = luck if known is None else luck.joined(known, MOST_DF)
    return over_processes(pairs[1:] or pairs, luck, typical_us, confidence)


def tell(found: Measured, name: str, pairs: Sequence[Speedup], told: Speedup) -> None:
    """Put `told` in the place of the ratio `name`, with a finding, unless it is that of the last pair."""
    if told == pairs[-1]:
        return
    told = replace(told, call=SpeedCall.UNSTABLE) if contradictory(pairs) else told
    setattr(found, name, told)
    if len(pairs) > 1:
        found.findings.append(_told(name, pairs, told))


def _told(name: str, pairs: Sequence[Speedup], told: Speedup) -> Finding:
    ratios = [round(one.value, 4) for one in pairs]
    over = "the best so far" if name == "rival" else "eager"
    text = (
        f"{len(pairs)} pairs of processes found {', '.join(f'{ratio:.3f}' for ratio in ratios)} over {over}; "
        f"the interval is over the last {max(1, len(pairs) - 1)}"
    )
    return Finding(f"time.processes.{name}", text, {"ratios": ratios, "call": told.call.value})


def learned(seen: Sequence[Measured]) -> Luck | None:
    """What these measurements tell about the luck of processes with this problem: against the best so far where there
    is one, else against eager. None where too few of them count."""
    name = "speedup" if any(one.rival is None for one in seen) else "rival"
    return luck_of([ratio.value for one in seen[1:] if (ratio := getattr(one, name)) is not None])
