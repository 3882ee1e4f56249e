"""The child that decides: it holds the problem, the secret seeds, the oracle and the key; it runs no candidate.

It may stay for the next candidate of the same problem; what it keeps until then is its cache.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from judge.bench.audit.audit import audit
from judge.bench.audit.setting import STAGE as AUDIT
from judge.bench.audit.setting import Setting, Usual
from judge.bench.deciding import confirming
from judge.bench.deciding.alternatives import Alternatives
from judge.bench.deciding.case_timing import CaseTiming
from judge.bench.deciding.compilation import COMPLETE, Compiled, compiled
from judge.bench.deciding.declared_check import CASES, DeclaredCheck, cases_to_ask
from judge.bench.deciding.memory_account import LACKING, MemoryAccount
from judge.bench.deciding.referee_cache import RefereeCache
from judge.bench.device import gpu
from judge.bench.device.gpu_lock import GpuLock
from judge.bench.device.luck import Luck
from judge.bench.exchange import seal
from judge.bench.exchange.claims import Chosen, Forwarded
from judge.bench.exchange.contact import Deadline, SubjectFailed
from judge.bench.exchange.nested import NotCarried
from judge.bench.exchange.rows import CountedRow, KernelRow
from judge.bench.foreign.loading import load_problem
from judge.bench.foreign.switches import neutral, numerics_now, numerics_of
from judge.bench.foreign.whereabouts import DeviceLost
from judge.bench.judging.asking import Question, Questions, Slots
from judge.bench.judging.completion import Ended, broken_device
from judge.bench.judging.correctness import REPEATS, Rounds
from judge.bench.judging.parameters import Binding
from judge.bench.judging.reference import Reference
from judge.bench.judging.stage_log import StageLog
from judge.bench.judging.subjects import Subjects, guarded
from judge.bench.processes.child import Assignment
from judge.bench.timing.counted import check_compiled
from judge.bench.timing.modelled import fixed_seed, modelled
from judge.bench.timing.parts import modelled_parts
from judge.bench.timing.stage import Measured, TimingStage
from judge.values import BASELINES, CaseRecord, Finding, JudgeError, Outcome, Policy, Speedup, Verdict
from judge.values import Audit as AuditState

SCARCE = 0.3  # of it free at the end: nobody stays
GAVE_UP_CHARS = 600


def run(assignment: Assignment) -> None:
    """Role "referee": judge a candidate and send one signed message; then the next, as long as it may stay."""
    cache = RefereeCache(assignment)
    more: Assignment | None = assignment
    while more is not None:
        try:
            stays = _judged(more, cache)
        except JudgeError as error:
            more.boss.send({"gave_up": str(error)[:GAVE_UP_CHARS]})  # else its end would be blamed on the problem
            raise
        more = cache.next(more) if stays else None


def _judged(assignment: Assignment, cache: RefereeCache) -> bool:
    """One evaluation. Whether this process may do another."""
    payload = assignment.payload
    neutral(Policy.from_json(payload["policy"]))
    referee = Referee(assignment, cache)
    outcome = referee.outcome().to_json()
    scarce = not cache.whereabouts.device_lost() and gpu.free_share(assignment.device) < SCARCE
    stays = bool(payload["stay"]) and cache.tidy(referee.subjects) and not (referee.has_audited or scarce)
    names = ["referee", *cache.kept] if stays else []
    assignment.boss.send(seal.signed(outcome, payload, stays=names, scarce=scarce))
    return stays


class Referee:
    """One evaluation, stage by stage."""

    weighted: CaseTiming | None = None  # of a problem in which any case has a weight

    def __init__(self, assignment: Assignment, cache: RefereeCache) -> None:
        payload = assignment.payload
        self.cache = cache
        self.assignment = assignment
        self.payload = payload
        self.device = assignment.device
        self.policy = Policy.from_json(payload["policy"])
        self.interprets = payload["basis"] == "modelled"
        self.deadline = Deadline(payload["wall_s"], payload["stage_s"])
        self.stage_log = StageLog(assignment.boss, self.deadline)
        lock_fd = cache.take_lock(next(iter(assignment.links[len(payload["subjects"]) :]), None))
        self.lock = GpuLock(lock_fd, self.stage_log.waiting, lambda: gpu.settle(self.device))
        self.subjects = Subjects(assignment, self.deadline, cache.arenas, cache.kept, self.lock)
        self.memory = MemoryAccount(cache, self.subjects, self.device)
        self.whereabouts = cache.whereabouts
        self.whereabouts.let_pass = self.lock.let_pass
        self.records: list[CaseRecord] = []
        self.loads = False
        self.kernels: tuple[KernelRow, ...] = ()
        self.compiled = Compiled(COMPLETE)  # what the recorder launched
        self.timed = Measured()
        self.timing: TimingStage | None = None  # where times are measured
        self.findings: list[Finding] = []
        self.audit = AuditState.NONE
        self.confirmed = False  # measured twice, and faster than the best so far both times
        self.environment: dict[str, Any] = {"baselines": {}}  # by name: measured, known, or why it is left out
        self.rounds: Rounds | None = None

    @property
    def has_audited(self) -> bool:
        """Whether it has seen more than an evaluation's questions: sealed cases, other processes' answers."""
        return self.stage_log.now == AUDIT or self.audit is AuditState.PASSED

    def outcome(self) -> Outcome:
        """Run the stages; whatever ends them early becomes the verdict."""
        try:
            with self.lock.shared():
                self._judge()
        except DeviceLost as lost:
            return self._not_passed(broken_device(lost, self.stage_log.now))
        except LACKING as error:
            return self._not_passed(self.memory.shortage(error, self.stage_log.now))
        except Ended as ended:
            if ended.verdict is not Verdict.REFUSED_PROBLEM:
                self._trust_the_device()
            self.memory.may_blame(ended)
            return self._not_passed(ended)
        self._trust_the_device()
        if self.weighted is not None:
            self.findings += self.weighted.weighing.findings()
        return self._outcome_of(
            Verdict.PASS,
            stage=self.stage_log.stages[-1].name,
            timings=tuple(self.timed.timings),
            speedup=self.timed.speedup,
            over_others=self.timed.over_others,
            versus_incumbent=self.timed.rival,
            audit=self.audit,
        )

    def _outcome_of(self, verdict: Verdict, ended: Ended | None = None, **fields: Any) -> Outcome:
        """The outcome with all that was written down on the way."""
        self.environment |= self.memory.noted()
        self._note_waits()
        return Outcome(
            verdict,
            loads=self.loads,
            findings=(*self.findings, *(self.rounds.noticed() if self.rounds is not None else [])),
            stages=tuple(self.stage_log.stages),
            cases=tuple(self.records),
            weighted=self.weighted.weighing.rows(verdict, ended, self.records) if self.weighted is not None else (),
            kernels=tuple(row.to_json() for row in self.kernels),
            environment=self.environment,
            **fields,
        )

    def _note_waits(self) -> None:
        """Where its time went beside its own work, and how long nobody else could have the GPU."""
        if self.lock.fd is not None:
            self.environment |= self.lock.use.to_json() | {"children_waited_s": round(self.subjects.waited_s, 4)}

    def _trust_the_device(self) -> None:
        """No verdict on a candidate by a referee whose own device failed it. Raises JudgeError."""
        if self.whereabouts.device_lost():
            raise JudgeError("the referee's GPU context broke while it compared")

    def _not_passed(self, ended: Ended) -> Outcome:
        if ended.subject != "candidate":
            self.environment["failed_child"] = ended.subject
        auditing = self.stage_log.now == AUDIT
        self.stage_log.record(ended.stage, "failed", 0.0, ended.reason)
        return self._outcome_of(
            ended.verdict,
            ended,
            stage=ended.stage,
            reason=ended.reason,
            message=ended.message,
            audit=AuditState.FAILED if auditing else AuditState.NONE,
        )

    def _judge(self) -> None:
        self.environment["reference"] = "separate process"
        self.environment["numerics"] = {"precision": self.policy.precision.value, **numerics_now()}
        self.memory.begin()
        self.stage_log.doing("problem")
        reference, rounds, first = self._problem()
        if reference.loaded.weights:
            setting = Setting(self.assignment, self.subjects, reference, self.findings, None)
            self.weighted = CaseTiming(setting, self.stage_log, self.lock, rounds.settled)
        self.stage_log.doing("load")
        self.stage_log.timed("load", lambda: self._load(reference, rounds.questions, first))
        rounds.take(self.subjects.fits["candidate"])
        self.records = rounds.records
        counted = self.payload["timing"] and self.interprets
        self.stage_log.doing("smoke")  # the call runs while the recorder compiles; its verdict comes second
        slots = guarded("smoke", lambda: rounds.tell(first, count=counted))
        if "recorder" in self.subjects.contacts:
            self.stage_log.doing("compile")
            unfit = self.stage_log.timed("compile", lambda: self._compile(reference, first))
            if unfit:
                slots = guarded("smoke", lambda: self._ask_again(rounds, first, unfit, count=counted))
        self.stage_log.doing("smoke")
        beside = partial(self.cache.draw_beside, rounds.contact, rounds.questions)
        answer = self.stage_log.timed(
            "smoke", lambda: guarded("smoke", lambda: rounds.contact.answer(Forwarded, beside))
        )
        self.stage_log.doing("correctness")
        self.stage_log.timed("correctness", lambda: guarded("correctness", lambda: rounds.run(first, answer, slots)))
        if rounds.fit.seeded:
            self.subjects.follow_seeds()
        self._declared(reference, Usual.of(rounds, first, answer))
        if self.interprets:
            check_compiled(dict(self.compiled.codes), rounds.codes, answer.traffic or (), self.compiled.missing)
        if self.payload["timing"]:
            self.stage_log.doing("timing")
            self.stage_log.timed("timing", lambda: self._timing(reference, rounds, first, answer))
        if self._to_be_audited():
            self.stage_log.doing(AUDIT)
            self.stage_log.timed(AUDIT, lambda: self._audit(reference, answer.traffic))
            self.audit = AuditState.PASSED
        if self.audit is AuditState.PASSED or self.payload.get("ahead"):
            self._time_alternatives(reference, rounds.to_time(first))
        self._numerics_hold()

    def _declared(self, reference: Reference, usual: Usual) -> None:
        """The problem's other cases, in a time of their own."""
        if not (cases := cases_to_ask(self.cache, reference, self.device)):
            return
        setting = Setting(self.assignment, self.subjects, reference, self.findings, None, usual)
        check = DeclaredCheck(setting, self.records)
        if self.weighted is not None:
            check = self.weighted.checking(check, cases, self.compiled)
        self.stage_log.doing(CASES)
        started = time.monotonic()
        with self.deadline.paused():
            said = check.run(cases, self.payload["wall_s"])
        self.stage_log.record(CASES, "ok", (time.monotonic() - started) * 1000, said)

    def _to_be_audited(self) -> bool:
        """Whether it would be the best: without a bar every pass is looked at, timed or not."""
        if self.payload["basis"] == "measured" and self.payload["timing"] and not self.confirmed:
            return False
        return self.payload.get("beat") is None or self._would_be_best(self.timed.speedup)

    def _audit(self, reference: Reference, counted: tuple[CountedRow, ...] | None) -> None:
        us = self.timed.candidate.median_us if self.timed.timings else None
        audit(self.assignment, self.subjects, reference, self.lock, self.stage_log, self.findings, us, counted)

    def _time_alternatives(self, reference: Reference, first: Question) -> None:
        """A new best is told by how it stands against the fastest that torch has: once a problem."""
        notes = self.environment["baselines"]
        asked = [BASELINES[name] for name in self.payload["beside_best"] if name not in notes]
        if not asked:
            return
        assert self.timing is not None, "the runner asks for times only where they are measured"
        alternatives = Alternatives(self.timing, self.subjects, self.deadline, self.stage_log)
        for one in asked:
            notes[one.name] = alternatives.time(one, self.timed, reference, first)

    def _problem(self) -> tuple[Reference, Rounds, Question]:
        """Import the problem and answer the first question, while the subjects import their own sources."""
        path = self.assignment.folder / "problem.py"
        try:
            reference = self.cache.reference or self._reference()
            case, contact = self.payload["case"], self.subjects.contacts["candidate"]
            self.rounds = rounds = Rounds(reference, contact, Binding((), hook=False), case, self.cache.questions)
            rounds.repeats, rounds.drops = 0 if self.interprets else REPEATS, not self.interprets
            return reference, rounds, self._first(rounds)
        except NotCarried as error:
            raise Ended(Verdict.REFUSED_PROBLEM, "problem", "problem.unsupported", str(error)) from error
        except (Ended, SubjectFailed, DeviceLost):
            raise
        except Exception as error:
            raise self.memory.of_problem(error, path, self.whereabouts.last) from error

    def _reference(self) -> Reference:
        loaded = load_problem(self.payload["source"], self.payload["case"], self.assignment.folder, self.whereabouts)
        reference = Reference(loaded, self.device, self.policy)
        self._numerics_hold()
        self.cache.reference = reference
        return reference

    def _numerics_hold(self) -> None:
        """The problem's module runs in this process and may have turned its switches: a finding, and put back."""
        found, asked = numerics_now(), numerics_of(self.policy)
        turned = sorted(name for name, value in found.items() if value != asked[name])
        if turned:
            self.findings = [one for one in self.findings if one.code != "problem.switches"]
            neutral(self.policy)
            text = f"the problem turns torch's switches, which were put back: {', '.join(turned)}"
            self.findings.append(Finding("problem.switches", text, {"switches": turned}))

    def _first(self, rounds: Rounds) -> Question:
        """The smoke question; where traffic is counted, the same one for every candidate."""
        if not self.interprets:
            return rounds.questions.first(None)
        self.cache.modelled = self.cache.modelled or rounds.questions.first(fixed_seed(self.payload["source"]))
        return self.cache.modelled

    def _load(self, reference: Reference, questions: Questions, first: Question) -> None:
        """Import, construct, fit the parameters: candidate first, then whoever else takes part."""
        for name in self.subjects.at_once(lean=reference.lean):
            meanwhile = partial(self.cache.draw_beside, self.subjects.contacts[name], questions)
            guarded("load", partial(self.subjects.ready, name, reference, first, meanwhile))
        self.loads = True
        self.environment["exchange"] = self.subjects.contacts["candidate"].arena.kind

    def _compile(self, reference: Reference, first: Question) -> list[dict[str, str]]:
        """What autotuners must take, since their first configuration does not fit. Raises Ended."""
        subjects = self.subjects
        recorder = Rounds(reference, subjects.contacts["recorder"], subjects.fits["recorder"], self.payload["case"])
        self.compiled = compiled(recorder, first)
        self.kernels = self.compiled.kernels
        self.findings += self.compiled.findings
        self.environment["compile"] = self.compiled.said
        return list(self.compiled.choices)

    def _ask_again(self, rounds: Rounds, first: Question, choices: list[dict[str, str]], *, count: bool) -> Slots:
        """Ask the first question of autotuners that take what fits; what was interpreted meanwhile could not run."""
        rounds.contact.answer(Forwarded)
        rounds.contact.ask(Chosen, choices=choices)
        return rounds.tell(first, count=count)

    def _timing(self, reference: Reference, rounds: Rounds, first: Question, answer: Forwarded) -> None:
        if self.interprets:
            self.timed = modelled(reference, rounds.settled(first), answer, self.assignment.target)
            if self.weighted is not None:
                self.timed = self.weighted.together(self.timed)
            if self._to_be_audited():
                step = partial(modelled_parts, rounds, first, self.timed.timings, self.assignment.target)
                self.findings += guarded("timing", step)
            self.environment["baselines"] |= reference.no_alternatives(on_gpu=True)
            return
        self._measure(reference, rounds.to_time(first))

    def _measure(self, reference: Reference, first: Question) -> None:
        """Side by side with eager and the best so far; a would-be best also by the trusted clock."""
        alone = self.weighted is None  # else other cases decide who may be the best, and the bar is a mean
        stage = TimingStage(
            reference,
            first,
            case=self.payload["case"],
            budget_s=self.payload["timing_s"],
            lock=self.lock,
            introduce=lambda name: guarded("timing", lambda: self.subjects.ready(name, reference, first)),
            placing=self.subjects.timed,
            begin=lambda names: self.subjects.begin(names, reference, first),
            precision=self.policy.precision.value,
            beat=self.payload.get("beat"),
            part=not alone,
        )
        confirms = self.payload.get("beat") is None  # every pass
        unrivalled = confirms and "incumbent" not in self.subjects.contacts
        if confirms:
            self.subjects.ahead(confirming.roles(rival=False))
        found, may_be_best = stage.compare(
            lambda: self._rival(reference, first),
            lambda found: alone and self._may_be_best(found),
            screen=alone and (self.payload.get("screen", False) or unrivalled),
        )
        known = stage.known_of(found, self.payload["known_us"])
        self.environment["baselines"] = known | reference.no_alternatives(on_gpu=self.device != "cpu")
        if self.weighted is not None:
            found = self.weighted.over(found, first.family)
            may_be_best = self._may_be_best(found)
        seen, luck = [found], Luck.read(self.payload.get("luck"))
        if may_be_best:
            beat = self.payload.get("beat")
            seen, self.confirmed = confirming.confirmed(stage, found, self.subjects, luck, self.weighted, beat)
        found, learned = confirming.told(stage, seen, luck, self.weighted)
        self.environment |= learned
        self.timing, self.timed = stage, found
        self.findings += found.findings
        self.environment |= gpu.facts(self.device)

    def _may_be_best(self, found: Measured) -> bool:
        """Whether it can become the best; who confirms that starts at once."""
        if not (self._would_be_best(found.speedup) and found.beats_rival):
            return False
        self.subjects.ahead(confirming.roles(rival=found.rival is not None))
        return True

    def _rival(self, reference: Reference, first: Question) -> bool:
        """Whether the best so far takes part; its own fault is nobody's here, it is left out then."""
        if self.payload.get("screen"):  # it was not there from the start
            self.subjects.want({"incumbent": "incumbent"})
        if "incumbent" not in self.subjects.contacts:
            return False
        try:
            self.subjects.ready("incumbent", reference, first)
        except (SubjectFailed, Ended) as failed:
            self.environment["incumbent"] = f"left out: {failed.message}"[:600]
            return False
        return True

    def _would_be_best(self, speedup: Speedup | None) -> bool:
        beat = self.payload.get("beat")
        return speedup is not None and (beat is None or speedup.value > beat)
