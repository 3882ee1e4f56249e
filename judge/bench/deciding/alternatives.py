"""Baselines other than eager: timed once a problem, alone, after the audit of a new best."""

from __future__ import annotations

import time
from dataclasses import replace

from judge.bench.deciding.memory_account import LACKING
from judge.bench.exchange.contact import Deadline
from judge.bench.foreign.switches import neutral
from judge.bench.judging.asking import Question
from judge.bench.judging.expected import expect
from judge.bench.judging.precision import Allowed
from judge.bench.judging.reference import Reference
from judge.bench.judging.stage_log import StageLog
from judge.bench.judging.subjects import Subjects
from judge.bench.timing.stage import Measured, TimingStage
from judge.values import Baseline, JudgeError

MEASURED = "measured"
NOTE_CHARS = 600


class Alternatives:
    """Times them with one evaluation's children, each in a stage and under a time limit of its own."""

    def __init__(self, timing: TimingStage, subjects: Subjects, deadline: Deadline, stage_log: StageLog) -> None:
        self.timing = timing
        self.subjects = subjects
        self.deadline = deadline
        self.stage_log = stage_log

    def time(self, baseline: Baseline, timed: Measured, reference: Reference, first: Question) -> str:
        """Add its time to `timed`. Returns `measured`, or why it is left out, which is nobody's fault here."""
        name, limit_s = baseline.name, baseline.limit_s
        self.stage_log.doing(baseline.stage)
        started = time.monotonic()
        with self.deadline.paused():
            try:
                limits = self._limits(baseline, reference, first)
                own = self.stage_log.own = Deadline(limit_s, limit_s)
                self.subjects.more({name: name})[name].deadline = own
                failed = self.timing.alternative(timed, baseline, limits)
            except JudgeError as error:  # its process ended
                failed = f"left out: {error}"[:NOTE_CHARS]
            except LACKING as error:
                failed = f"left out: too little memory: {error}"[:NOTE_CHARS]
            finally:
                self.stage_log.own = None
            if name in self.subjects.contacts:
                self.subjects.release(name)  # its memory is the next one's
        state = "warned" if failed else "ok"
        self.stage_log.record(baseline.stage, state, (time.monotonic() - started) * 1000, failed)
        return failed or MEASURED

    def _limits(self, baseline: Baseline, reference: Reference, first: Question) -> list[Allowed] | None:
        """What its outputs may be off by: as much as anybody's under its numerics. None where outputs are random."""
        if first.expected.random:
            return None
        if baseline.precision is None:
            return first.expected.allowed
        neutral(replace(reference.policy, precision=baseline.precision))
        try:
            other = reference.under(baseline.precision)
            inputs = reference.inputs(first.family, first.seed) if reference.lean else first.inputs
            return expect(other, inputs, first.state, first.seed).allowed
        finally:
            neutral(reference.policy)
