"""Times of a problem's weighted cases beside the evaluated one: modelled from counted launches, or measured, each with
a reference and children of its own."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from judge.bench.admission.declared import with_case
from judge.bench.audit.recount import recounted_us
from judge.bench.audit.setting import GIVEN, Setting, ask_once, other_question
from judge.bench.deciding.compilation import Compiled, compiled
from judge.bench.deciding.declared_check import Answered, Counting, DeclaredCheck
from judge.bench.deciding.weighing import Weighing
from judge.bench.device.gpu_lock import GpuLock
from judge.bench.exchange.claims import Chosen
from judge.bench.exchange.contact import Deadline
from judge.bench.exchange.nested import NotCarried
from judge.bench.exchange.reports import CASES_TIMED, CASES_WALLS
from judge.bench.foreign.loading import LoadedProblem
from judge.bench.judging.asking import Question, Questions
from judge.bench.judging.comparison import STAGE
from judge.bench.judging.completion import Ended, in_case
from judge.bench.judging.reference import REFUSALS, Reference
from judge.bench.judging.stage_log import StageLog
from judge.bench.judging.subjects import guarded
from judge.bench.processes.subject_starter import of_case
from judge.bench.timing.counted import check_compiled
from judge.bench.timing.modelled import fixed_seed, modelled
from judge.bench.timing.stage import Measured, TimingStage
from judge.values import CaseRecord, JudgeError, Verdict

TIMING = "timing"
FIRST = 1  # the pass that nobody confirms anything by


class Unfit(Exception):
    """A case cannot be timed on this device, whoever the candidate is."""


class CaseTiming:
    """Of one evaluation. `settled`: a question as a measurement compares with it."""

    def __init__(
        self, setting: Setting, stage_log: StageLog, lock: GpuLock, settled: Callable[[Question], Question]
    ) -> None:
        self.setting = setting
        self.weighing = Weighing(setting.reference.loaded)
        self.stage_log = stage_log
        self.lock = lock
        self.settled = settled
        self.family = GIVEN  # of the content that is timed
        self.records: list[CaseRecord] = []  # of the check
        self.payload: dict[str, Any] = setting.assignment.payload
        self._short = False  # only a few pairs are measured
        self._gapped: set[str] = set()  # cases in which calls wait for their launches: by the same clock in every pass

    def checking(self, check: DeclaredCheck, cases: dict[str, str], compilation: Compiled) -> DeclaredCheck:
        """The check of the other cases, which counts launches of those with a weight where times are modelled.

        `cases`: as in `other_cases`; `compilation`: that of the evaluated case.
        """
        self.weighing.asked, self.records = cases, check.records
        counting = None
        if self.setting.interprets and self.payload["timing"]:
            counting = Counting(fixed_seed(self.payload["source"]), partial(self._model, compilation=compilation))
        return replace(check, weighted=self.weighing.counting, counting=counting)

    def over(self, alone: Measured, family: str = "", *, number: int = FIRST) -> Measured:
        """The means over all weighted cases, the others measured in pass `number`. One that loses the evaluated case is
        looked at shortly in the others first, and not measured there unless it may win by them. `family`: of the
        content that is timed, the last one unless given."""
        weighing, self.family = self.weighing, family or self.family
        weighing.number = number
        weighing.checked(self.records)
        until, beat = time.monotonic() + CASES_WALLS * self.payload["wall_s"], self.payload.get("beat")
        weighing.skipped = False
        if number == FIRST and weighing.loses(alone, beat):
            weighing.skipped = weighing.hopeless(alone, beat) or not self._may_win(alone, beat, until)
        if weighing.counting and not weighing.skipped:
            with self.setting.subjects.deadline.paused():
                self._measure(number, until, rival=alone.rival is not None)
        return self.together(alone)

    def _may_win(self, alone: Measured, beat: float | None, until: float) -> bool:
        """By a few pairs in every other case, of which nothing is kept."""
        with self.setting.subjects.deadline.paused():
            self._measure(FIRST, until, rival=alone.rival is not None, short=True)
        may_win = self.weighing.may_win(alone, beat)
        self.weighing.found = {}
        return may_win

    def together(self, alone: Measured) -> Measured:
        """As `Weighing.together`."""
        return self.weighing.together(alone)

    def _model(self, answered: Answered, *, compilation: Compiled) -> None:
        """The time of a case from its counted launches. Kernels that only it launches are compiled for it.

        The draw that is counted is the same for every candidate, which could know it: other content is counted beside
        it, since an audit does that in the evaluated case alone. Raises Ended and SubjectFailed.
        """
        rounds, reply = answered.rounds, answered.reply
        codes, missing = dict(compilation.codes), compilation.missing
        if any(code not in codes for code in rounds.codes):
            more = self._compiled(answered)
            codes, missing = codes | dict(more.codes), missing or more.missing
            if more.choices:
                rounds.codes = {}  # what it launched before its autotuners took what fits could not run
                rounds.contact.ask(Chosen, choices=list(more.choices))
                reply = ask_once(rounds, answered.question, STAGE, count=True)
        check_compiled(codes, rounds.codes, reply.traffic or (), missing)
        settled = self.settled(answered.question)
        target = self.setting.assignment.target
        found = modelled(answered.reference, settled, reply, target)
        other = other_question(rounds, GIVEN)
        if other is not None:
            recounted_us(ask_once(rounds, other, STAGE, count=True), target, found.candidate.median_us, STAGE)
        self.weighing.found[answered.case] = found

    def _compiled(self, answered: Answered) -> Compiled:
        name = f"{answered.child}.record"
        self.setting.subjects.more({name: "record"})
        try:
            return compiled(self.setting.ready(name, answered.reference, answered.question), answered.question)
        finally:
            self.setting.subjects.release(name)

    def _measure(self, number: int, until: float, *, rival: bool, short: bool = False) -> None:
        """One pass over the cases, in fresh children; from the second on also by the trusted clock. With `short` of as
        few pairs as a comparison can have.

        Content is of the same family as in the evaluated case, where the reference has an answer for it. Raises Ended
        with the name of a case in which the candidate fails.
        """
        weighing, stage_log = self.weighing, self.stage_log
        stage_log.doing(f"{CASES_TIMED} {number}")
        weighing.found, started, self._short = {}, time.monotonic(), short
        for place, name in enumerate(weighing.to_time, 1):
            own = Deadline(max(until - time.monotonic(), 0.0), self.payload["stage_s"])
            stage_log.own = own
            try:
                found = self._one(name, f"#case{place}.{0 if short else number}", number, own, rival=rival)
            finally:
                stage_log.own = None
                self._give_back()
            if isinstance(found, Measured):
                weighing.found[name] = found
            else:
                weighing.untimed[name] = found[:400]
        which = "a short look" if short else f"pass {number}"
        done = f"{len(weighing.found)} of {len(weighing.counting)} timed, {which}"
        stage_log.record(CASES_TIMED, "ok", (time.monotonic() - started) * 1e3, done)
        stage_log.doing(TIMING)

    def _one(self, name: str, suffix: str, number: int, own: Deadline, *, rival: bool) -> Measured | str:
        """Its times, or why it has none."""
        if own.stage() < self.payload["stage_s"] / 10:
            return "the cases before it took all the time"
        subjects = self.setting.subjects
        roles = {f"candidate{suffix}": "run", f"eager{suffix}": of_case("eager", name)}
        roles |= {f"incumbent{suffix}": "incumbent"} if rival else {}
        for contact in subjects.more(roles).values():
            contact.deadline = own
        try:
            with with_case(self.setting.reference.loaded, name) as loaded:
                return self._timed(name, loaded, suffix, trusted=number > FIRST, rival=rival)
        except Unfit as unfit:
            if self.setting.reference.whereabouts.device_lost():
                raise JudgeError(f"the referee's GPU context broke in case {name!r}") from unfit
            return str(unfit)
        except Ended as ended:
            if ended.verdict is Verdict.REFUSED_PROBLEM:  # the baseline: nobody's fault here, where it fits for others
                return ended.message
            raise in_case(ended, name, TIMING) from ended
        finally:
            subjects.release(*roles)

    def _timed(self, name: str, loaded: LoadedProblem, suffix: str, *, trusted: bool, rival: bool) -> Measured:
        setting = self.setting
        try:
            reference = Reference(loaded, setting.device, setting.reference.policy)
            question = self.settled(self._question(reference))
        except (*REFUSALS, MemoryError, NotCarried) as error:
            raise Unfit(f"the reference cannot be run here: {type(error).__name__}") from error
        stage = TimingStage(
            reference,
            question,
            case=loaded.case,
            budget_s=0.0 if self._short else self.payload["timing_s"],
            lock=self.lock,
            introduce=lambda child: guarded(TIMING, partial(setting.subjects.ready, child, reference, question)),
            placing=setting.subjects.timed,
            begin=lambda names: setting.subjects.begin(names, reference, question),
            precision=reference.policy.precision.value,
            part=True,
            gate=False,
        )
        try:
            stage.measurement.gaps = name in self._gapped
            found = stage.measure(suffix=suffix, rival=rival)
            self._gapped |= {name} if found.gaps else set()
            return stage.trust(found, suffix=suffix) if trusted else found
        except (MemoryError, torch.OutOfMemoryError) as error:
            raise Unfit("there is too little memory to time it beside the reference") from error

    def _question(self, reference: Reference) -> Question:
        questions = Questions(reference)
        if self.family != GIVEN:
            try:
                question = questions.question(self.family, reference.first)
            except REFUSALS:
                pass
            else:
                if question.decides:
                    return question
        return questions.question(GIVEN, reference.first)

    def _give_back(self) -> None:
        """A case's reference and questions lie in cycles."""
        gc.collect()
        if self.setting.device != "cpu":
            torch.cuda.empty_cache()
