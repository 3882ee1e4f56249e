"""What the checks of an audit share: how to get fresh children, ask them, and write down what was noticed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from judge.bench.contact import Contact, SubjectFailed
from judge.bench.correctness import Question, Rounds
from judge.bench.endings import Ended, of_candidate
from judge.bench.fitting import Fit
from judge.bench.inspection import Seen
from judge.bench.loading import LoadedProblem
from judge.bench.nested import TensorMeta
from judge.bench.precision import errors
from judge.bench.reference import Reference
from judge.bench.wire import Message
from judge.values import Finding, Policy, SealedCase, Verdict

STAGE = "audit"
GIVEN = "given"


@dataclass(frozen=True)
class Doors:
    """What the referee does for an audit. Each may raise JudgeError; `introduce` raises SubjectFailed and Ended too."""

    more: Callable[[dict[str, str]], dict[str, Contact]]  # children by name and mode
    release: Callable[[str], None]
    introduce: Callable[[str, Reference, Question], Fit]  # a child imports and constructs its model
    look: Callable[[str], Seen]  # what the runner sees of a child
    refer: Callable[[LoadedProblem], Reference]  # the reference of a problem under the policy


@dataclass
class Setting:
    """One audit: the problem with its answers, the candidate's facts, and where findings go.

    `device` is "cpu" or "cuda:0"; `interprets` says that kernels run in the interpreter. `defined` maps the Triton
    kernels of the candidate's text to the names each of them uses. `problem` is (source, case).
    """

    doors: Doors
    reference: Reference
    policy: Policy
    problem: tuple[str, str | None]
    folder: Path
    device: str
    target: str
    interprets: bool
    sealed: tuple[SealedCase, ...] = ()
    defined: dict[str, list[str]] = field(default_factory=dict)
    candidate_us: float | None = None  # measured, not modelled
    elements: int = 0  # of the inputs of the evaluated case
    findings: list[Finding] = field(default_factory=list)
    contacts: dict[str, Contact] = field(default_factory=dict)

    def start(self, wanted: dict[str, str]) -> None:
        """Children by name and mode; they import at once, side by side."""
        self.contacts |= self.doors.more(wanted)

    def note(self, code: str, message: str, **data: Any) -> None:
        self.findings.append(Finding(code, message, data))

    def rounds(self, name: str, question: Question | None = None) -> tuple[Rounds, Question]:
        """A started child ready for questions, and the first of them. Raises SubjectFailed and Ended."""
        rounds = Rounds(self.reference, self.contacts[name], Fit((), hook=False), None)
        question = question or rounds.question(GIVEN, self.reference.first)
        rounds.fit = self.doors.introduce(name, self.reference, question)
        return rounds, question

    def release(self, name: str) -> None:
        """Let a child end: it holds a context and memory."""
        del self.contacts[name]
        self.doors.release(name)


def elements(question: Question) -> int:
    """Elements of all inputs."""
    return sum(tensor.numel() for tensor in question.tensors())


@dataclass(frozen=True)
class Answer:
    """A reply with the referee's own copy of what was handed over."""

    reply: Message
    values: list[torch.Tensor]


def ask(rounds: Rounds, question: Question, *, poison: bool = False, count: bool = False) -> Answer:
    """One question, judged like those of the correctness stage. Raises Ended."""
    try:
        slots = rounds.tell(question, poison=poison, count=count)
        reply = rounds.contact.answer()
        values = rounds.contact.take(slots[1])
        rounds.judge(question, reply, slots, STAGE)
    except SubjectFailed as failed:
        raise of_candidate(failed, STAGE) from failed
    return Answer(reply, values)


def survives(rounds: Rounds, question: Question) -> bool:
    """Whether a child whose launches were tampered with still gives the right answer. Failing in any way is a no."""
    try:
        slots = rounds.tell(question, poison=True)
        reply = rounds.contact.answer()
        return right(question, reply, rounds.contact.take(slots[1]))
    except (SubjectFailed, Ended):
        return False


def right(question: Question, reply: Message, values: list[torch.Tensor]) -> bool:
    """Whether structure and every output are as the oracle allows."""
    expected = question.expected
    if "structure" in reply or not reply.get("stored") or reply["template"] != expected.template:
        return False
    metas = [TensorMeta.from_json(row) for row in reply["metas"]]
    if [(m.dtype, m.shape) for m in metas] != [(m.dtype, m.shape) for m in expected.metas]:
        return False
    return all(_close(expected, number, value) for number, value in enumerate(values))


def _close(expected: Any, number: int, value: torch.Tensor) -> bool:
    if not value.is_floating_point() and not value.is_complex():
        return bool(torch.equal(value, expected.same[number]))
    return bool(expected.allowed[number].holds(errors(value, expected.oracle[number])))


def dishonest(reason: str, message: str) -> Ended:
    return Ended(Verdict.DISHONEST, STAGE, reason, message)
