"""The declared cases of a problem in which any has a weight: what one evaluation found of each, and the mean over them.

Cases that this device is not asked have no part in the mean. Where one that is asked has no time, there is no mean: a
kernel must not choose what it is compared on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from judge.bench.device.luck import Luck
from judge.bench.device.statistics import (
    CONFIDENCE,
    call_of,
    indifference_of,
    joint_confidence,
    paired_speedup,
    weighted_mean,
)
from judge.bench.foreign.loading import LoadedProblem
from judge.bench.judging.completion import Ended
from judge.bench.timing.pairs import agreed, learned, tell
from judge.bench.timing.stage import Measured
from judge.values import (
    BLAMING,
    Basis,
    CaseRecord,
    CaseState,
    Finding,
    SpeedCall,
    Speedup,
    Subject,
    Timing,
    Verdict,
    WeightedCase,
)
from judge.values.weights import UNWEIGHTED

LEFT_OUT = "left out: "  # begins the detail of a round that was not asked
SLOWER = "case.slower"  # a finding
ALONE = "the kernel is slower than the best so far in the evaluated case"
PLAUSIBLE = 4.0  # times the best so far, over all other cases: a kernel that would need more there is not looked at


@dataclass
class Weighing:
    """Of one evaluation. `asked`: each other case with why this device is not asked it; empty where it is."""

    loaded: LoadedProblem
    asked: dict[str, str] = field(default_factory=dict)
    found: dict[str, Measured] = field(default_factory=dict)  # times of the other cases, of the last pass
    untimed: dict[str, str] = field(default_factory=dict)  # why one that is asked has none
    alone: Measured | None = None  # the evaluated case's
    number: int = 1  # of the pass that is under way
    passes: dict[int, dict[str, Measured]] = field(default_factory=dict)  # what each found of each case
    known: Luck | None = None  # the luck of processes in the evaluated case
    skipped: bool = False  # the evaluated case alone is timed

    @property
    def counting(self) -> list[str]:
        """Other cases that have a part in the mean here."""
        return [name for name in self.loaded.weights if name in self.asked and not self.asked[name]]

    @property
    def to_time(self) -> list[str]:
        """Those of them that can be timed."""
        return [name for name in self.counting if name not in self.untimed]

    @property
    def own(self) -> str:
        """The name of the evaluated case."""
        return self.loaded.case or ""

    @property
    def own_weight(self) -> float:
        """Of the evaluated case."""
        return self.loaded.weights.get(self.own, UNWEIGHTED)

    def checked(self, records: Sequence[CaseRecord]) -> None:
        """Take note of cases that were left out when they were to be checked."""
        self.untimed |= {name: why for name in self.counting if (why := _left_out(name, records))}

    def loses(self, alone: Measured, beat: float | None) -> bool:
        """Whether the evaluated case says that it is no would-be best: surely slower there than the best so far.

        A kernel whose speedup there is above `beat` is none of these: one that is timed in the evaluated case alone
        never stands above the best.
        """
        speedup, bar = alone.speedup, math.inf if beat is None else beat
        if speedup is None:
            return True
        if bar < math.inf and speedup.value > bar:
            return False
        if alone.rival is not None:
            return alone.rival.call is SpeedCall.SLOWER
        return speedup.high < bar < math.inf

    def hopeless(self, alone: Measured, beat: float | None) -> bool:
        """Whether nothing plausible in the other cases could make up for what one that loses the evaluated case loses
        there. `beat`: as in `loses`."""
        elsewhere = math.fsum(self.loaded.weights[name] for name in self.counting)
        if alone.speedup is None or not elsewhere:
            return True
        here = alone.rival.high if alone.rival is not None else alone.speedup.high / (beat or math.inf)
        return here ** -(self.own_weight / elsewhere) > PLAUSIBLE if here > 0 else True

    def may_win(self, alone: Measured, beat: float | None) -> bool:
        """Whether the mean over all cases may lie above the bar, as far as a few pairs in each tell."""
        mean = self.together(alone)
        if mean.rival is not None:
            return mean.rival.high > 1
        return mean.speedup is not None and (beat is None or mean.speedup.high > beat)

    def together(self, alone: Measured) -> Measured:
        """`alone`, with the means over all cases as its speedups; they are missing where a case has no time.

        As it is where no other case was to be timed.
        """
        self.alone = alone
        self.passes[self.number] = {self.own: alone, **self.found}
        if not self.means:
            return alone
        parts = [(self.own_weight, alone)] if self.own_weight else []
        parts += [(self.loaded.weights[name], self.found[name]) for name in self.counting if name in self.found]
        if alone.speedup is None or any(name not in self.found for name in self.counting):
            return replace(alone, speedup=None, rival=None)
        plausible = alone.plausible and all(one.plausible for _, one in parts)
        over_eager, over_best = (_mean(parts, subject) for subject in (Subject.EAGER, Subject.INCUMBENT))
        return replace(alone, plausible=plausible, speedup=over_eager, rival=over_best)

    @property
    def means(self) -> bool:
        """Whether its speedups are means over several cases."""
        return bool(self.counting) and not self.skipped

    @property
    def gaps(self) -> bool:
        """Whether in any case that was timed calls wait for their launches."""
        return any(one.gaps for found in self.passes.values() for one in found.values())

    def published(self, seen: Sequence[Measured], known: Luck | None) -> Measured:
        """As `pairs.published` says it of one case: the mean of what the passes agree on in each case, by the clock and
        with the luck of processes of that case. `seen`: the means of each pass. `known`: of the evaluated case."""
        self.known = known
        found = replace(seen[-1], findings=list(seen[-1].findings))
        last = self.passes[self.number]
        for name, subject in (("speedup", Subject.EAGER), ("rival", Subject.INCUMBENT)):
            means = [ratio for one in seen if (ratio := getattr(one, name)) is not None]
            parts = [(weight, case) for case, weight in self._weights().items() if case in last]
            told = [(weight, self.agreed(case, subject, joint_confidence(len(parts)))) for weight, case in parts]
            known_parts = [(weight, ratio) for weight, ratio in told if ratio is not None]
            if len(means) == len(seen) and len(known_parts) == len(parts):
                bar = max(indifference_of(last[case].candidate.median_us) for _, case in parts)
                tell(found, name, means, weighted_mean(known_parts, bar))
        return found

    def learned(self) -> Luck | None:
        """What the passes tell about the luck of processes in the evaluated case."""
        alone = [found[self.own] for found in self.passes.values()]
        if not all(one.gaps for one in alone):
            return None
        own = [replace(one, speedup=_over(one, Subject.EAGER), rival=_over(one, Subject.INCUMBENT)) for one in alone]
        return learned(own)

    def agreed(self, case: str, subject: Subject, confidence: float = CONFIDENCE) -> Speedup | None:
        """The ratio over `subject` in a case; None where any pass has none."""
        found = [one[case] for one in self.passes.values() if case in one]
        pairs = [ratio for one in found if (ratio := _over(one, subject, confidence)) is not None]
        if not found or len(pairs) < len(found):
            return None
        known = self.known if case == self.own else None
        return agreed(pairs, found[-1].candidate.median_us, gaps=found[-1].gaps, known=known, confidence=confidence)

    def _weights(self) -> dict[str, float]:
        own = {self.own: self.own_weight} if self.own_weight else {}
        return own | {name: self.loaded.weights[name] for name in self.counting}

    def rows(self, verdict: Verdict, ended: Ended | None, records: Sequence[CaseRecord]) -> tuple[WeightedCase, ...]:
        """One for each case, the evaluated one first; () for verdicts that do not speak of the candidate."""
        if verdict is not Verdict.PASS and verdict not in BLAMING:
            return ()
        others = [name for name in self.loaded.cases if name != self.loaded.case]
        return (self._evaluated(ended), *(self._other(name, ended, records) for name in others))

    def _evaluated(self, ended: Ended | None) -> WeightedCase:
        name, weight = self.own, self.own_weight
        if ended is not None:
            state = CaseState.CHECKED if ended.case else CaseState.FAILED
            return WeightedCase(name, weight, state, evaluated=True)
        if self.alone is None:
            return WeightedCase(name, weight, CaseState.CHECKED, evaluated=True)
        own = self.agreed(name, Subject.EAGER), self.agreed(name, Subject.INCUMBENT)
        return WeightedCase(name, weight, CaseState.TIMED, True, "", (), *own)

    def _other(self, name: str, ended: Ended | None, records: Sequence[CaseRecord]) -> WeightedCase:
        weight = self.loaded.weights.get(name, UNWEIGHTED)
        why = self.asked.get(name) or _left_out(name, records)
        if ended is not None and ended.case == name:
            return WeightedCase(name, weight, CaseState.FAILED)
        if why:
            return WeightedCase(name, weight, CaseState.LEFT_OUT, detail=why)
        if not any(row.case == name for row in records):
            return WeightedCase(name, weight, CaseState.NOT_REACHED)
        found = self.found.get(name)
        if found is None or ended is not None:
            detail = ALONE if weight and self.skipped else self.untimed.get(name, "")
            return WeightedCase(name, weight, CaseState.CHECKED, detail=detail)
        timings = tuple(one for one in found.timings if one.subject in _SUBJECTS)
        own = self.agreed(name, Subject.EAGER), self.agreed(name, Subject.INCUMBENT)
        return WeightedCase(name, weight, CaseState.TIMED, False, "", timings, *own)

    def findings(self) -> list[Finding]:
        """Where it is surely slower than the reference, and what timing in other cases noticed."""
        found = []
        for case in self.passes.get(self.number, {}):
            name, speedup = case or "plain constants", self.agreed(case, Subject.EAGER)
            if speedup is not None and _slower(speedup):
                text = (
                    f"slower than eager in case {name!r}: {speedup.value:.2f} [{speedup.low:.2f}, {speedup.high:.2f}]"
                )
                data = {"case": name, "speedup": speedup.value, "low": speedup.low, "high": speedup.high}
                found.append(Finding(SLOWER, text, data))
        for name, one in self.found.items():
            found += [
                replace(row, message=f"in case {name!r}: {row.message}", data={**row.data, "case": name})
                for row in one.findings
            ]
        return found


_SUBJECTS = (Subject.CANDIDATE, Subject.EAGER, Subject.INCUMBENT)


def _left_out(name: str, records: Sequence[CaseRecord]) -> str:
    said = (row.detail for row in records if row.case == name and row.detail.startswith(LEFT_OUT))
    return next(said, "").removeprefix(LEFT_OUT)


def _measured(found: Measured) -> bool:
    return found.candidate.basis is Basis.MEASURED


def _timing(found: Measured, subject: Subject) -> Timing | None:
    return next((timing for timing in found.timings if timing.subject is subject), None)


def _over(found: Measured, subject: Subject, confidence: float = CONFIDENCE) -> Speedup | None:
    """Of one case: over `subject`, anew from the pairs where they were measured."""
    if not _measured(found):
        return found.speedup if subject is Subject.EAGER else found.rival
    baseline = _timing(found, subject)
    if baseline is None or found.speedup is None:  # the second: what is drawn at random could not be checked
        return None
    return paired_speedup(baseline.samples_us, found.candidate.samples_us, subject, confidence=confidence)


def _mean(parts: list[tuple[float, Measured]], subject: Subject) -> Speedup | None:
    """None where any case has no speedup over `subject`."""
    confidence = joint_confidence(len(parts))
    found = [(weight, _over(one, subject, confidence)) for weight, one in parts]
    known = [(weight, speedup) for weight, speedup in found if speedup is not None]
    if len(known) < len(found):
        return None
    return weighted_mean(known, max(indifference_of(one.candidate.median_us) for _, one in parts))


def _slower(speedup: Speedup) -> bool:
    if speedup.basis is Basis.MEASURED:
        return speedup.call is SpeedCall.SLOWER
    return call_of(speedup.low, speedup.high) is SpeedCall.SLOWER
