"""What the checks of an audit share: how to get fresh children, ask them, and write down what was noticed."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import torch

from judge.bench.exchange.arenas import JITTER
from judge.bench.exchange.claims import Forwarded, Loaded, Timed
from judge.bench.exchange.contact import SubjectFailed
from judge.bench.exchange.nested import packed
from judge.bench.exchange.rows import FAULTS, CountedRow
from judge.bench.judging.asking import HOPELESS, Question, Questions, call
from judge.bench.judging.comparison import check_structure
from judge.bench.judging.completion import Ended, of_candidate, of_subject
from judge.bench.judging.correctness import Rounds
from judge.bench.judging.expected import holds
from judge.bench.judging.families import CENTRED
from judge.bench.judging.reference import REFUSALS, Reference
from judge.bench.judging.stochastic import ByChance, eligible
from judge.bench.judging.subjects import Subjects
from judge.bench.processes.child import Assignment
from judge.bench.processes.inspection import Seen, look
from judge.values import Finding, JudgeError, SealedCase, Verdict

STAGE = "audit"
GIVEN = "given"
LATER = 2  # further calls of a child without launches, of each kind
ACCESS_S, CALL_S = 1e-3, 0.05  # of an interpreted call: each block that a program loads or stores; the rest


@dataclass(frozen=True)
class Usual:
    """The candidate on the evaluated case: its quickest call in seconds by the referee's clock, and the loads and
    stores of its interpreted launches (0 elsewhere)."""

    question: Question
    seconds: float
    accesses: int

    @classmethod
    def of(cls, rounds: Rounds, question: Question, counted: Forwarded) -> Usual:
        return cls(question, rounds.contact.quickest_s, sum(row.accesses for row in counted.traffic or ()))

    @property
    def pace_s(self) -> float:
        """Seconds of an interpreted call; sleeping does not make them more."""
        return min(self.seconds, CALL_S + ACCESS_S * self.accesses)


class Setting:
    """One audit: the problem with its answers, the candidate's facts, its fresh children, and where findings go.

    `interprets` says that kernels run in the interpreter. `defined` maps the Triton kernels of the candidate's text to
    the names each of them uses; `reaches` is what that text reaches for and no kernel needs, in words.
    """

    def __init__(
        self,
        assignment: Assignment,
        subjects: Subjects,
        reference: Reference,
        findings: list[Finding],
        candidate_us: float | None,
        usual: Usual | None = None,
        counted: tuple[CountedRow, ...] | None = None,
    ) -> None:
        """`candidate_us`: its time, modelled where kernels are interpreted; None where it was not asked for. `counted`:
        the launches that a modelled time is made of."""
        self.assignment = assignment
        self.subjects = subjects
        self.reference = reference
        self.findings = findings
        self.candidate_us, self.counted = candidate_us, counted
        self.library = reference.policy.library
        self.device = assignment.device
        self.interprets = assignment.payload["basis"] == "modelled"
        self.sealed = [SealedCase(**row) for row in assignment.payload["sealed"]]
        self.defined: dict[str, list[str]] = assignment.payload["defined"]
        self.reaches: list[str] = assignment.payload["reaches"]
        self.usual = usual  # the candidate on the evaluated case, once it is known

    def look(self, name: str) -> Seen:
        """What the runner sees of a child. Raises JudgeError."""
        return look(self.assignment.boss, name, self.subjects.deadline.stage())

    def note(self, code: str, message: str, **data: Any) -> None:
        self.findings.append(Finding(code, message, data))

    def rounds(self, name: str, question: Question | None = None) -> tuple[Rounds, Question]:
        """A started child ready for questions, and the first of them. Raises SubjectFailed and Ended."""
        question = question or Questions(self.reference).question(GIVEN, self.reference.first)
        return self.ready(name, self.reference, question), question

    def ready(self, name: str, reference: Reference, question: Question) -> Rounds:
        """A started child that can be asked `question` of `reference`. Raises SubjectFailed and Ended."""
        try:
            fit = self.subjects.introduce(name, reference, question)
        except SubjectFailed as failed:
            if (
                failed.kind == "died" and failed.doing == Loaded.op
            ):  # it had loaded before; how it ended, the runner knows
                raise of_subject(failed, STAGE) from failed
            raise
        rounds = Rounds(reference, self.subjects.contacts[name], fit, None)
        rounds.questions.seeded = rounds.fit.seeded
        rounds.by_chance = True  # random outputs were compared over many draws already
        return rounds


def elements(question: Question) -> int:
    """Elements of all inputs."""
    return sum(tensor.numel() for tensor in question.tensors())


def judge_case(rounds: Rounds, question: Question, stage: str, *, count: bool = False) -> Forwarded:
    """Two rounds of another case: as given, then other content and parameters. Raises SubjectFailed and Ended.

    Returns the answer to the first, with its launches where they are to `count`.
    """
    first = ask_once(rounds, question, stage, count=count)
    other = other_question(rounds, CENTRED)
    if other is not None:
        ask_once(rounds, other, stage)
    return first


def ask_once(rounds: Rounds, question: Question, stage: str, *, count: bool = False) -> Forwarded:
    """One judged answer. Raises SubjectFailed and Ended."""
    slots = rounds.tell(question, count=count)
    reply = rounds.contact.answer(Forwarded)
    rounds.judge(question, reply, slots, stage)
    return reply


@dataclass(frozen=True)
class Answer:
    """A reply with the referee's own copy of what was handed over."""

    reply: Forwarded
    values: list[torch.Tensor]


def ask(rounds: Rounds, question: Question, *, poison: bool = False, count: bool = False) -> Answer:
    """One question, judged like those of the correctness stage. Raises Ended."""
    try:
        slots = rounds.tell(question, poison=poison, count=count)
        reply = rounds.contact.answer(Forwarded)
        rounds.judge(question, reply, slots, STAGE)
    except SubjectFailed as failed:
        raise of_candidate(failed, STAGE) from failed
    return Answer(reply, rounds.values)


def survives(rounds: Rounds, question: Question) -> bool:
    """Whether a child whose launches were tampered with ever gives the right answer: in its first call, in later ones,
    or in calls that look timed. Failing in any way is a no."""
    asks = [_told, *[_told] * LATER, *[_timed] * (0 if question.expected.state else LATER)]
    for ask_it in asks:
        try:
            if _right(question, ask_it(rounds, question)):
                return True
        except Ended:
            continue
        except SubjectFailed as failed:
            if failed.kind not in FAULTS:
                return False  # it answers no more
    return False


def _told(rounds: Rounds, question: Question) -> list[torch.Tensor]:
    reply, slots = rounds.ask(question, poison=True)
    check_structure(reply, question.expected, STAGE)
    return rounds.contact.take(slots.outs)


def _timed(rounds: Rounds, question: Question) -> list[torch.Tensor]:
    """As a measurement asks, with the parameters that it has."""
    template, tensors = packed(question.inputs)
    ins, outs = rounds.contact.lay_out(tensors, question.expected.metas, secrets.randbelow(JITTER))
    rounds.contact.ask(Timed, **call(template, ins, outs, question.seed), flush=False, spare=False)
    return rounds.contact.take(outs)


def _right(question: Question, values: list[torch.Tensor]) -> bool:
    """Whether every output is as the oracle allows; one that is drawn, as a draw of it could be."""
    expected = question.expected
    return all(
        holds(target, value) or (eligible(expected, number) and ByChance().accepts(value, target.same))
        for number, (target, value) in enumerate(zip(expected.outputs, values, strict=True))
    )


def other_question(rounds: Rounds, family: str) -> Question | None:
    """Other content and parameters; None where the reference has no answer for them to judge by."""
    reference = rounds.reference
    for gently in (False, True):
        state = reference.reseeded() if rounds.fit.seeded else reference.redrawn(gently=gently)
        try:
            question = rounds.questions.question(family, state)
        except REFUSALS as error:
            if reference.whereabouts.device_lost():
                raise JudgeError("the referee's GPU context broke in an audit") from error
            continue
        if question.expected.finite and question.expected.worst <= HOPELESS:
            return question
    return None


def dishonest(reason: str, message: str) -> Ended:
    return Ended(Verdict.DISHONEST, STAGE, reason, message)
