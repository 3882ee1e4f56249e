"""A would-be best is measured again in fresh processes: what one process was lucky with, another is not."""

from __future__ import annotations

from judge.bench.audit.audit import CHILDREN as AUDITING
from judge.bench.judging.subjects import Subjects
from judge.bench.timing.stage import Measured, TimingStage

NUMBERS = (2, 3)  # of the fresh sets of children; the last one only for a narrow win


def roles(number: int = NUMBERS[0], *, rival: bool) -> dict[str, str]:
    """The children of a further measurement by name, and what each runs."""
    found = {f"candidate#{number}": "run", f"eager#{number}": "eager"}
    return found | ({f"incumbent#{number}": "incumbent"} if rival else {})


def confirmed(stage: TimingStage, found: Measured, subjects: Subjects) -> tuple[Measured, bool]:
    """Once more in fresh processes, a narrow win twice more. The last measurement, and whether all agree.

    The children of the audit that follows start meanwhile.
    """
    seen, agree = [found], False
    for number in NUMBERS:
        wanted = roles(number, rival=found.rival is not None)
        subjects.want(wanted)
        subjects.ahead(AUDITING)
        seen.append(stage.confirm(seen[-1], number))
        subjects.release(*wanted)
        agree = all(one.beats_rival and one.plausible for one in seen)
        if not (agree and any(one.wins_narrowly for one in seen)):
            break
    if agree:
        seen[-1].findings += stage.parts(seen[-1])
    return seen[-1], agree
