"""The timing stage of one evaluation: side by side, then, for a would-be best, once more and by the trusted clock.

`Job.beat` decides who is a would-be best. Its published times come from a second pair of fresh processes: what a
process was lucky with, another one is not.
"""

from __future__ import annotations

import dataclasses
import random
import secrets
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from judge.bench.device.clocks import LONGEST_HOLD_US, WallClock, empty_us, make_clock, quiet_and_alone
from judge.bench.device.gpu_lock import GpuLock
from judge.bench.device.statistics import paired_speedup, timing_of, unpaired_speedup
from judge.bench.exchange.contact import Contact, SubjectFailed
from judge.bench.judging.asking import Question
from judge.bench.judging.completion import Ended, of_subject
from judge.bench.judging.parameters import Binding
from judge.bench.judging.precision import Allowed
from judge.bench.judging.reference import Reference
from judge.bench.timing.bursts import draw_ahead, trusted_time
from judge.bench.timing.circumstances import Circumstances
from judge.bench.timing.enough import BELOW
from judge.bench.timing.measured import Measurement, Placing, Runner
from judge.bench.timing.parts import measured_parts
from judge.bench.timing.trusted import Trusted
from judge.values import (
    ALTERNATIVES,
    BASELINES,
    Baseline,
    Finding,
    JudgeError,
    SpeedCall,
    Speedup,
    Subject,
    Timing,
    Verdict,
)

WALL_SHARE = 0.75  # a claim may be this part of what single calls took by this process's clock
WALL_VARIES = 0.1  # of a call's wall time: large contents take their time to copy
WALL_SLACK_US, CPU_WALL_SLACK_US = 30.0, 600.0  # by which single calls differ for other reasons
NARROW = 1.05  # a win by less is looked for in three sets of processes (ADR 29)
TRIES = 3  # measurements, until the baseline is as fast beside the candidate as in its bursts
SHORT_US = 20.0  # below this the clock's own reading around nothing is stated
KNOWN = "known from before"
OTHER_CLOCK = "left out: its time is one with launches counted, and this kernel's is not, or the other way round"
FLAGS = {"l2": "flushed by reading", "order": "ABBA", "launch_gaps": "left out"}

Introduce = Callable[[str], tuple[Contact, Binding]]


@dataclass
class Measured:
    """What the stage found. `speedup` is over eager; `rival` against the best so far."""

    timings: list[Timing] = field(default_factory=list)
    speedup: Speedup | None = None
    over_others: dict[str, Speedup] = field(default_factory=dict)  # by name of the alternative
    rival: Speedup | None = None
    stopped: str = ""  # why no more pairs were measured
    gaps: bool = False  # between launches count in these times
    plausible: bool = True  # nothing that the judge's own clock says is against the claim
    findings: list[Finding] = field(default_factory=list)

    @property
    def candidate(self) -> Timing:
        return next(timing for timing in self.timings if timing.subject is Subject.CANDIDATE)

    @property
    def beats_rival(self) -> bool:
        """Whether it is surely faster than the best so far; true when there is none to beat."""
        return self.rival is None or self.rival.call is SpeedCall.FASTER

    @property
    def unstable(self) -> bool:
        """Whether measurements in fresh processes contradict each other."""
        return any(one is not None and one.call is SpeedCall.UNSTABLE for one in (self.speedup, self.rival))

    @property
    def wins_narrowly(self) -> bool:
        """Whether where its processes happen to lie in memory could explain the win."""
        return self.rival is not None and self.beats_rival and self.rival.low < NARROW


class TimingStage:
    """Measures with children that `introduce` readies: it returns the named child's contact and parameter map.

    `begin` lets those that are not ready construct their models side by side.
    """

    gaps = False  # between launches count, since somebody's calls wait for them

    def __init__(
        self,
        reference: Reference,
        first: Question,
        *,
        case: str | None,
        budget_s: float,
        lock: GpuLock,
        introduce: Introduce,
        placing: Placing,
        begin: Callable[[list[str]], None] = lambda names: None,
        precision: str = "strict",
        beat: float | None = None,
        part: bool = False,
        gate: bool = True,
    ) -> None:
        """`part` and, of a part, `gate`: as in `why_enough`."""
        self.device = reference.device
        self.lock = lock
        self.introduce, self.begin = introduce, begin
        self.precision = precision
        self.rng = random.Random(secrets.randbits(64))
        self.measurement = Measurement.of(reference, first, case, budget_s, self.rng, beat)
        self.measurement.placing = placing
        self.measurement.part, self.measurement.gate = part, part and gate
        self.method = make_clock(self.device).method
        self._sides: dict[str, Runner] = {}

    def compare(
        self, rival: Callable[[], bool], check: Callable[[Measured], bool], *, screen: bool
    ) -> tuple[Measured, bool]:
        """Candidate beside eager and the best so far, where `rival()` gets that ready and says that it takes part.

        Whether it may be the best, as `check` says, is returned, too: whoever may is measured again, and then checked.
        With `screen` few pairs with eager come first: what is surely below the best needs no more of anybody's time,
        and where there is no best, whoever passes is measured again.
        """
        if screen:
            self.measurement.screening = True
            try:
                found = self.measure()
            finally:
                self.measurement.screening = False
            if found.stopped == BELOW:
                return found, False
            if self.measurement.beat is None and check(found):
                return found, True
        found = self.measure(rival=rival())
        return found, check(found)

    def measure(self, *, suffix: str = "", rival: bool = False) -> Measured:
        """Candidate beside eager and, with `rival`, the best so far; children are named "candidate" + suffix, ..."""
        self.begin([f"{name}{suffix}" for name in ("candidate", "eager", *(["incumbent"] if rival else []))])
        sides = {name: self._runner(f"{name}{suffix}", blame=name == "candidate") for name in ("candidate", "eager")}
        try:
            if rival:
                sides["incumbent"] = self._runner(f"incumbent{suffix}")
            seen = self.measurement.run(list(sides.values()), self.lock, rival=sides.get("incumbent"))
        except SubjectFailed as failed:  # the best so far failed: no fault of this candidate
            found = self.measure(suffix=suffix)
            found.findings.append(Finding("time.no_incumbent", f"the best so far failed: {failed.message}"[:400]))
            return found
        if seen.gaps:
            self.gaps, self.method = True, WallClock.method
        found = Measured(
            [self._timing(Subject(name), side, seen) for name, side in sides.items()],
            stopped=seen.stopped,
            gaps=self.gaps,
        )
        mine = sides["candidate"].samples_us
        found.speedup = paired_speedup(sides["eager"].samples_us, mine)
        if rival:
            found.rival = paired_speedup(sides["incumbent"].samples_us, mine, Subject.INCUMBENT)
        self._sides = sides
        if not self.measurement.told:
            found.speedup = found.rival = None
            text = "too few calls to tell whether each draws numbers of its own: no speedup is given"
            found.findings.append(Finding("time.draws", text))
        return found

    def known_of(self, found: Measured, times: dict[str, dict[str, Any]]) -> dict[str, str]:
        """Add times of baselines from earlier evaluations, by name: samples and their method. What became of each."""
        notes = {}
        for name, row in times.items():
            if row["method"] == self.method:
                self.known(found, BASELINES[name], row["samples_us"])
                notes[name] = KNOWN
            else:
                notes[name] = OTHER_CLOCK
        return notes

    def known(self, found: Measured, baseline: Baseline, samples_us: list[float]) -> None:
        """Add a baseline's time that was measured for an earlier candidate."""
        timing = timing_of(baseline.subject, samples_us, self.method, cached=True, **self._circumstances(baseline))
        _add(found, baseline, timing)

    def alternative(self, found: Measured, baseline: Baseline, limits: list[Allowed] | None) -> str:
        """Measure a baseline alone, with its child. Returns why it has no time; empty when it has.

        `limits`: what each output may be off by, in every timed call; None where outputs are drawn at random.
        """
        try:
            side = self._runner(baseline.name)
            side.limits = limits
            seen = self.measurement.run([side], self.lock)
        except (Ended, SubjectFailed) as failed:
            return f"left out: {failed.message}"[:600]
        _add(found, baseline, self._timing(baseline.subject, side, seen, **self._circumstances(baseline)))
        return ""

    def _circumstances(self, baseline: Baseline) -> dict[str, object]:
        found: dict[str, object] = {"precision": (baseline.precision or self.precision)}
        return found | ({"mode": baseline.mode} if baseline.mode else {})

    def trust(self, found: Measured, *, suffix: str = "") -> Measured:
        """Check the candidate's claims by bursts of calls between two stamps of this process.

        What a busy machine held up is measured again, claims that are narrowly missed too: others on the GPU may have
        come between. The last measurement is returned. Raises Ended (`time.mismatch`) when no clock of ours supports
        the claim, and JudgeError when there is no quiet; what cannot be checked is a finding.
        """
        text = ""
        for number in range(1, TRIES + 1):
            claimed_us = found.candidate.median_us
            trusted = self._trusted(claimed_us)
            if trusted is None:
                self._without_bursts(found, claimed_us)
                return found
            if not trusted.supported:
                if number == TRIES or not trusted.narrowly_missed(claimed_us):
                    raise _mismatch(claimed_us, trusted)
                found = self._measured_again(found, suffix)
                continue
            eager_us = statistics.median(self._sides["eager"].samples_us)
            held = statistics.median(self._sides["eager"].host_us) <= LONGEST_HOLD_US and not self.gaps
            if self.device == "cpu" or not (
                held and trusted.disturbed(eager_us)
            ):  # launches are timed, too: of no help
                data = {**dataclasses.asdict(trusted), "claimed_us": claimed_us}
                found.findings.append(Finding("time.trusted", _agreement(claimed_us, trusted), data))
                return found
            text = f"{eager_us:.1f} µs beside the candidate, {trusted.baseline_us:.1f} µs at most in bursts"
            found = self._measured_again(found, suffix)
        raise JudgeError(f"the GPU is not quiet: {TRIES} times over a call of the reference took longer, {text}")

    def _measured_again(self, found: Measured, suffix: str) -> Measured:
        return _carried(found, self.measure(suffix=suffix, rival=found.rival is not None))

    def _trusted(self, claimed_us: float) -> Trusted | None:
        candidate, eager = self._sides["candidate"], self._sides["eager"]
        draw_ahead(self.measurement, claimed_us)
        try:
            names = [candidate.contact.name, eager.contact.name]
            alone = quiet_and_alone(self.lock, self.device, puts_off=True)
            with alone, self.lock.without_contexts(), self.measurement.placing(names):
                trusted = trusted_time(self.measurement, candidate, eager, self.rng, claimed_us=claimed_us)
            self.measurement.check_taken()
            return trusted
        except SubjectFailed as failed:
            raise of_subject(failed, "timing") from failed

    def _without_bursts(self, found: Measured, claimed_us: float) -> None:
        """Compare how long single calls took by this process's clock: coarse, but no claim shortens it.

        Raises Ended (`time.mismatch`) for a claim that not even a slow launch, as it claims to have, explains.
        """
        mine, theirs = self._sides["candidate"], self._sides["eager"]
        wall_us = min(mine.wall_us) - min(theirs.wall_us) + min(theirs.samples_us)
        slack_us = CPU_WALL_SLACK_US if self.device == "cpu" else WALL_SLACK_US + WALL_VARIES * min(theirs.wall_us)
        found.plausible = claimed_us + slack_us >= WALL_SHARE * wall_us
        text = (
            "whole numbers are drawn or the content is too large: no burst was possible; by the judge's own clock a "
            f"call may take up to {max(wall_us, 0.0):.0f} µs, {claimed_us:.1f} are claimed"
        )
        launch_us = max(statistics.median(mine.host_us) - statistics.median(theirs.host_us), 0.0)
        if claimed_us + launch_us + slack_us < WALL_SHARE * wall_us:
            raise Ended(Verdict.SUSPECT, "timing", "time.mismatch", text)
        if not found.plausible:
            text += ": too far apart for a best"
        found.findings.append(Finding("time.unchecked", text, {"wall_us": wall_us, "claimed_us": claimed_us}))

    def confirm(self, found: Measured, number: int) -> Measured:
        """Measure again with the children of that number; what comes of it is published."""
        suffix = f"#{number}"
        again = self._measured_again(found, suffix)
        again = self.trust(again, suffix=suffix)  # a process can tell that it is not the first: it only gives times
        text = {2: "measured twice, in fresh processes; the second time is shown"}.get(
            number, "a narrow win, measured three times in fresh processes; the last time is shown"
        )
        if self.gaps:
            text = (
                f"calls wait for their launches: measured {number} times in fresh processes; the last times are shown"
            )
        first = next((one.data for one in found.findings if one.code == "time.confirmed"), _first(found))
        renewed = {"time.confirmed", *(one.code for one in again.findings)}
        again.findings += [one for one in found.findings if one.code not in renewed]
        again.findings.append(Finding("time.confirmed", text, first))
        return again

    def parts(self, found: Measured) -> list[Finding]:
        """Forward and backward apart, by the children "candidate" and "eager"; nothing where there is no backward."""
        sides = [self._runner("candidate", blame=True), self._runner("eager")]
        return measured_parts(self.measurement, sides, found.timings, self.lock)

    def _runner(self, name: str, *, blame: bool = False) -> Runner:
        contact, fit = self.introduce(name)
        return Runner(contact, fit, blame)

    def _timing(self, subject: Subject, side: Runner, seen: Circumstances, **detail: object) -> Timing:
        facts: dict[str, object] = {**FLAGS, "precision": self.precision, **detail}
        if self.measurement.spares:
            facts["memory"] = "taken anew by every call of every side"
        if self.gaps:
            facts["launch_gaps"] = "counted: launching takes longer than the work"
        if any(side.host_us):
            facts["host_us"] = sorted(side.host_us)[len(side.host_us) // 2]
        if any(seen.clocks_mhz):
            facts |= {"sm_clock_mhz": [min(seen.clocks_mhz), max(seen.clocks_mhz)], "throttled": seen.throttled}
        elif self.measurement.clock.unavailable:
            facts["sm_clock_mhz"] = self.measurement.clock.unavailable
        if seen.cores:
            facts["cores"] = seen.cores
        if seen.waited_s >= 0.05:
            facts["waited_for_quiet_s"] = round(seen.waited_s, 2)
        if seen.stopped:
            facts["stopped"] = seen.stopped
        if seen.dropped:
            facts["dropped_pairs"] = seen.dropped
        if side.samples_us and min(side.samples_us) < SHORT_US and self.device != "cpu":
            facts["empty_us"] = empty_us(self.device)
        return timing_of(subject, side.samples_us, self.method, **facts)


def _add(found: Measured, baseline: Baseline, timing: Timing) -> None:
    found.timings.append(timing)
    if found.speedup is not None:
        found.over_others[baseline.name] = unpaired_speedup(timing, found.candidate)


def _carried(found: Measured, again: Measured) -> Measured:
    """`again` with the times of other baselines, which are not measured twice."""
    others = {one.subject: one for one in ALTERNATIVES}
    for timing in (one for one in found.timings if one.subject in others):
        _add(again, others[timing.subject], timing)
    return again


def _first(found: Measured) -> dict[str, float]:
    assert found.speedup is not None
    return {"first_speedup": found.speedup.value, "first_low": found.speedup.low, "first_high": found.speedup.high}


def _mismatch(claimed_us: float, trusted: Trusted) -> Ended:
    how = {
        "burst": "calls back to back (their launches cannot be replayed from a CUDA graph)",
        "graph_burst": "calls replayed from a CUDA graph",
    }[trusted.method]
    return Ended(
        Verdict.SUSPECT,
        "timing",
        "time.mismatch",
        f"a call was claimed to take {claimed_us:.1f} µs, but by the judge's own clock each of {trusted.calls} {how} "
        f"took {trusted.call_us:.1f} µs",
    )


def _agreement(claimed_us: float, trusted: Trusted) -> str:
    return (
        f"{trusted.calls} calls on different content took {trusted.call_us:.1f} µs each by the judge's own clock "
        f"({'CUDA graph' if trusted.method == 'graph_burst' else 'back to back'}, L2 not flushed); "
        f"claimed {claimed_us:.1f} µs"
    )
