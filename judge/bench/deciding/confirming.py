"""A would-be best is measured again in fresh processes: what one process was lucky with, another is not."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from judge.bench.audit.audit import CHILDREN as AUDITING
from judge.bench.deciding.case_timing import CaseTiming
from judge.bench.device.luck import Luck
from judge.bench.judging.subjects import Subjects
from judge.bench.processes.baselines import LUCK
from judge.bench.timing.pairs import learned, published
from judge.bench.timing.stage import Measured, TimingStage

NUMBERS = (2, 3)  # of the fresh sets of children; the last one only for a narrow win
OF_LAUNCHES = (2, 3, 4, 5)  # the same where launching takes the time; without a best so far the first two


def roles(number: int = NUMBERS[0], *, rival: bool) -> dict[str, str]:
    """The children of a further measurement by name, and what each runs."""
    found = {f"candidate#{number}": "run", f"eager#{number}": "eager"}
    return found | ({f"incumbent#{number}": "incumbent"} if rival else {})


def confirmed(
    stage: TimingStage,
    found: Measured,
    subjects: Subjects,
    known: Luck | None = None,
    weighted: CaseTiming | None = None,
    beat: float | None = None,
) -> tuple[list[Measured], bool]:
    """Once more in fresh processes, a narrow win twice more, one of many launches up to four times more.

    All measurements, and whether the candidate wins by all of them. The children of the audit that follows start
    meanwhile. `known`: the luck of processes with this problem. `weighted`: its other cases, measured
    again, too. `beat`: the speedup of the best so far; where that one failed meanwhile, the interval must lie above it.
    """
    seen, wins = [found], False
    gaps = stage.gaps or (weighted is not None and weighted.weighing.gaps)
    for number in OF_LAUNCHES if gaps else NUMBERS:
        wanted = roles(number, rival=found.rival is not None)
        subjects.want(wanted)
        subjects.ahead(AUDITING)
        again = stage.confirm(seen[-1], number)
        subjects.release(*wanted)
        seen.append(again if weighted is None else weighted.over(again, number=number))
        told = _published(stage, seen, known, weighted)
        complete = weighted is None or all(one.speedup is not None for one in seen)
        agree = complete and all(one.plausible and (one.beats_rival or gaps) for one in seen)
        wins = agree and told.beats_rival and not told.unstable and _above(told, beat)
        if not (agree and (_open(told, number) if gaps else any(one.wins_narrowly for one in seen))):
            break
    if wins:
        seen[-1].findings += stage.parts(seen[-1])
    return seen, wins


def told(
    stage: TimingStage, seen: list[Measured], known: Luck | None, weighted: CaseTiming | None = None
) -> tuple[Measured, dict[str, Any]]:
    """What is published of the measurements, and for the environment what they tell of the luck of processes."""
    if weighted is not None:
        new = weighted.weighing.learned()
    elif stage.gaps:
        new = learned(seen)
    else:
        new = None
    return _published(stage, seen, known, weighted), {} if new is None else {LUCK: asdict(new)}


def _published(stage: TimingStage, seen: list[Measured], known: Luck | None, weighted: CaseTiming | None) -> Measured:
    if weighted is not None and weighted.weighing.means:
        return weighted.weighing.published(seen, known)
    return published(seen, gaps=stage.gaps, known=known)


def _above(told: Measured, beat: float | None) -> bool:
    """Whether it surely passes the bar, where nothing was measured beside the best so far."""
    return told.rival is not None or beat is None or (told.speedup is not None and told.speedup.low > beat)


def _open(told: Measured, number: int) -> bool:
    """Whether another pair of processes may still decide for the candidate."""
    if told.unstable:
        return False
    return number == OF_LAUNCHES[0] if told.rival is None else told.rival.value > 1
