"""Correctness rounds: fresh content every time, bytes compared with the oracle by the referee's own code."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import torch

from judge.bench.contact import Contact
from judge.bench.endings import Ended, lower_precision
from judge.bench.exchange import JITTER, Slot
from judge.bench.families import FAMILIES
from judge.bench.faults import kind_of
from judge.bench.fitting import Fit
from judge.bench.nested import TensorMeta, encode, shape_of
from judge.bench.poison import poisoned
from judge.bench.precision import ILL_CONDITIONED, Errors, errors, rounded
from judge.bench.reference import REFUSALS, Expected, Reference, State, collect
from judge.bench.wire import Message
from judge.values import CaseRecord, JudgeError, Verdict

REDRAWN_ROUNDS = frozenset({1, 2, 4})  # parameters change before these rounds
POISONED_ROUNDS = frozenset({1})  # uninitialised memory reads as a marked NaN; it slows the interpreter
HOPELESS = 0.25  # an honest reference this far from fp64 decides nothing


@dataclass(frozen=True)
class Question:
    """One set of inputs and parameters with the right answer."""

    family: str
    inputs: list[Any]
    state: State
    seed: int
    expected: Expected

    def tensors(self) -> list[torch.Tensor]:
        found: list[torch.Tensor] = []
        encode(self.inputs, collect(found))
        return found


class Rounds:
    """Asks one subject every round; stops at the first wrong answer by raising Ended."""

    def __init__(self, reference: Reference, contact: Contact, fit: Fit, case: str | None) -> None:
        self.reference = reference
        self.contact = contact
        self.fit = fit
        self.case = case or "as written"
        self.records: list[CaseRecord] = []
        self.state: State = reference.first
        self.previous: State | None = None
        self._put = False

    def question(self, family: str, state: State, seed: int | None = None) -> Question:
        """Fresh inputs of `family`; entropy unless a seed is given."""
        inputs = self.reference.inputs(family, secrets.randbits(62) if seed is None else seed)
        run_seed = secrets.randbits(31) if seed is None else seed
        return Question(family, inputs, state, run_seed, self.reference.expect(inputs, state, run_seed))

    def first(self, seed: int | None) -> Question:
        """The smoke question: inputs as given, parameters as constructed. Raises Ended when the problem is unfit."""
        question = self.question(FAMILIES[0], self.reference.first, seed)
        worst = max((e.rms for e in question.expected.reference_errors), default=0.0)
        if worst > HOPELESS:
            raise Ended(
                Verdict.REFUSED_PROBLEM,
                "correctness",
                "problem.ill_conditioned",
                f"the reference is {worst:.2g} of the output's spread away from fp64; no candidate can be judged",
            )
        return question

    def tell(self, question: Question, *, count: bool = False, poison: bool = False) -> tuple[list[Slot], list[Slot]]:
        """Write the question into the arena and start the call."""
        self._use(question.state)
        ins, outs = self.contact.lay_out(question.tensors(), question.expected.metas, secrets.randbelow(JITTER))
        self.contact.tell("forward", **call(question, ins, outs), poison=poison, count=count)
        return ins, outs

    def judge(self, question: Question, reply: Message, slots: tuple[list[Slot], list[Slot]], stage: str) -> CaseRecord:
        """Check one answer: structure, state, guard bands, values. Raises Ended."""
        ins, outs = slots
        check_structure(reply, question.expected, stage)
        values = self.contact.take(outs)
        self._check_state(question, reply, ins, outs)
        record = self._check_values(question, values)
        self.records.append(record)
        return record

    def run(self, asked: Question, answer: Message, slots: tuple[list[Slot], list[Slot]]) -> None:
        """All rounds; the first question was already asked in the smoke stage."""
        self.judge(asked, answer, slots, "smoke")
        for number, family in list(enumerate(FAMILIES))[1:]:
            if number in REDRAWN_ROUNDS:
                self.previous, self.state = self.state, self.reference.redrawn()
            question = self._answerable(family)
            if question is None:
                continue
            slots = self.tell(question, poison=number in POISONED_ROUNDS)
            self.judge(question, self.contact.answer(), slots, "correctness")

    def _answerable(self, family: str) -> Question | None:
        """A question of `family`; None, and a record of why, where the reference has no answer to judge by.

        A reference may refuse content it was not made for: binary cross entropy wants probabilities. A lack of memory
        is no such refusal: a candidate that holds it all would then be asked nothing more.
        """
        try:
            question = self.question(family, self.state)
        except REFUSALS as error:
            if kind_of(error) == "oom" or self.reference.whereabouts.device_lost():
                raise JudgeError(f"the referee cannot ask for inputs {family!r}: {error}") from error
            self._leave_out(family, f"the reference raised {type(error).__name__}: {error}")
            return None
        if not question.expected.finite or self._hopeless(question):
            self._leave_out(family, "the oracle is not finite or too uncertain")
            return None
        return question

    def _leave_out(self, family: str, why: str) -> None:
        self.records.append(CaseRecord(self.case, family, ok=True, detail=f"left out: {why}"[:400]))

    def _hopeless(self, question: Question) -> bool:
        return max((e.rms for e in question.expected.reference_errors), default=0.0) > max(HOPELESS, ILL_CONDITIONED)

    def _use(self, state: State) -> None:
        if not self._put or state is not self._used:
            self.contact.put_state(self.fit.of(state), hook=self.fit.hook, again=self._put)
            self._put, self._used = True, state

    def _check_state(self, question: Question, reply: Message, ins: list[Slot], outs: list[Slot]) -> None:
        expected = question.expected
        broken = self.contact.arena.broken_band([*ins, *outs])
        if broken is not None:
            what = f"input {broken}" if broken < len(ins) else f"output {broken - len(ins)}"
            raise Ended(Verdict.WRONG, "correctness", "value.guard_band", f"memory beside {what} was written to")
        for number, (slot, after) in enumerate(zip(ins, expected.inputs_after, strict=True)):
            if not same_bits(self.contact.arena.view(slot), after.to(self.contact.arena.memory.device)):
                raise Ended(
                    Verdict.STATE_VIOLATION,
                    "correctness",
                    "state.input_changed",
                    f"after forward, input {number} differs from what the reference leaves; work on a copy",
                )
        if reply.get("changed_alias") and not expected.aliases:
            raise Ended(
                Verdict.STATE_VIOLATION,
                "correctness",
                "state.alias",
                "an output lies in an input's memory, which the reference's does not; return a new tensor",
            )

    def _check_values(self, question: Question, values: list[torch.Tensor]) -> CaseRecord:
        worst: tuple[float, float] = (0.0, 0.0)
        for number, value in enumerate(values):
            found, limit = self._check_one(question, number, value)
            if limit == 0 or found / limit >= worst[0] / worst[1] if worst[1] else True:
                worst = (found, limit)
        detail = "" if question.expected.fp64 else "oracle in the reference's own type"
        return CaseRecord(self.case, question.family, ok=True, error=worst[0], allowed=worst[1], detail=detail)

    def _check_one(self, question: Question, number: int, value: torch.Tensor) -> tuple[float, float]:
        expected = question.expected
        oracle, same, limit = expected.oracle[number], expected.same[number], expected.allowed[number]
        if not value.is_floating_point() and not value.is_complex():
            if torch.equal(value, same):
                return 0.0, 0.0
            raise self._fail(question, number, "value.mismatch", _integer_message(value, same))
        unwritten = int((poisoned(value) & ~oracle.isnan()).sum())
        if unwritten:
            text = f"{unwritten} of {value.numel()} elements were never written"
            raise self._fail(question, number, "value.partial", text)
        if value.is_complex():
            value, oracle = torch.view_as_real(value), torch.view_as_real(oracle)
        stray = int((~value.isfinite() & oracle.isfinite()).sum())
        if stray:
            text = f"{stray} of {value.numel()} elements are NaN or infinite where the oracle is not"
            raise self._fail(question, number, "value.nonfinite", text, Verdict.NOT_FINITE)
        found = errors(value, oracle)
        if limit.holds(found):
            return found.rms, limit.rms
        self._explain(question, number, value, found)
        text = (
            f"RMS error {found.rms:.3g} of the output's spread (allowed {limit.rms:.3g}), "
            f"largest {found.largest:.3g} (allowed {limit.largest:.3g}); {_where(value, oracle)}"
        )
        raise self._fail(question, number, "value.mismatch", text)

    def _explain(self, question: Question, number: int, value: torch.Tensor, found: Errors) -> None:
        """Raise the more telling ending when the wrong values are stale or merely coarse."""
        if self.previous and question.state is self.state:  # without parameters nothing can be stale
            stale = self.reference.run(_copies(question.inputs), self.previous, question.seed)
            outs: list[torch.Tensor] = []
            encode(stale, collect(outs))
            if question.expected.allowed[number].holds(errors(value, outs[number])):
                raise Ended(
                    Verdict.STATE_VIOLATION,
                    "correctness",
                    "state.stale_params",
                    "the answer belongs to parameters that have been replaced; derive nothing from them "
                    "outside forward, or do it in prepare(), which runs after every change",
                )
        self._explain_precision(question, number, found)

    def _explain_precision(self, question: Question, number: int, found: Errors) -> None:
        """Lower precision: near the coarse reference's error, and right once inputs hold nothing finer."""
        coarse = question.expected.coarse_errors[number]
        if coarse is None or not coarse.finite:
            return
        for kind, factor in (("tf32", 1.0), ("bfloat16", 8.0), ("float16", 1.0)):
            if found.rms > 4 * factor * coarse.rms:
                continue
            inputs = rounded(_copies(question.inputs), kind)
            state = {name: rounded(tensor, kind) for name, tensor in question.state.items()}
            again = Question(
                question.family, inputs, state, question.seed, self.reference.expect(inputs, state, question.seed)
            )
            slots = self.tell(again)
            reply = self.contact.answer()
            check_structure(reply, again.expected, "precision")
            value = self.contact.take(slots[1])[number]
            if errors(value, again.expected.oracle[number]).rms <= found.rms / 4:
                raise lower_precision("precision", kind, found.rms, question.expected.allowed[number].rms)

    def _fail(self, question: Question, number: int, reason: str, text: str, verdict: Verdict = Verdict.WRONG) -> Ended:
        limit = question.expected.allowed[number]
        self.records.append(CaseRecord(self.case, question.family, ok=False, allowed=limit.rms, detail=text[:400]))
        where = f"output {number}, inputs {question.family!r}"
        return Ended(verdict, "correctness", reason, f"{where}: {text}")

    _used: State | None = None


def call(question: Question, ins: list[Slot], outs: list[Slot]) -> Message:
    """Fields of a forward command: arguments as JSON, places of inputs and outputs, the RNG seed."""
    return {
        "args": encode(question.inputs, collect([])),
        "slots": [slot.to_json() for slot in ins],
        "out": [slot.to_json() for slot in outs],
        "seed": question.seed,
    }


def check_structure(reply: Message, expected: Expected, stage: str) -> None:
    """Nesting, exact types, shapes and dtypes must be the reference's. Raises Ended."""
    if "structure" in reply:
        raise Ended(Verdict.WRONG_STRUCTURE, stage, "structure.type", str(reply["structure"])[:2000])
    metas = [TensorMeta.from_json(row) for row in reply["metas"]]
    if reply["template"] != expected.template:
        text = f"the output is nested as {shape_of(reply['template'])}, the reference as {shape_of(expected.template)}"
        raise Ended(Verdict.WRONG_STRUCTURE, stage, "structure.nesting", text[:2000])
    for number, (got, wanted) in enumerate(zip(metas, expected.metas, strict=True)):
        if got.shape != wanted.shape:
            text = f"output {number} has shape {list(got.shape)}, the reference's has {list(wanted.shape)}"
            raise Ended(Verdict.WRONG_STRUCTURE, stage, "structure.shape", text)
        if got.dtype != wanted.dtype:
            text = f"output {number} has dtype {got.dtype}, the reference's has {wanted.dtype}"
            raise Ended(Verdict.WRONG_STRUCTURE, stage, "structure.dtype", text)
    if not reply.get("stored"):
        raise Ended(Verdict.DISHONEST, stage, "tamper.channel", "the output was described but not handed over")


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equality of content; a NaN equals itself."""
    if torch.equal(left, right):
        return True
    if not left.is_floating_point():
        return False
    return bool(((left == right) | (left.isnan() & right.isnan())).all())


def _copies(inputs: list[Any]) -> list[Any]:
    from judge.bench.reference import cloned

    return list(cloned(inputs))


def _integer_message(value: torch.Tensor, exact: torch.Tensor) -> str:
    wrong = value != exact
    return f"{int(wrong.sum())} of {value.numel()} {str(value.dtype)[6:]} elements differ; {_where(value, exact)}"


def _where(value: torch.Tensor, exact: torch.Tensor) -> str:
    """The worst element, as an index a person can look up."""
    difference = (value.double() - exact.double()).abs().nan_to_num(float("inf"))
    flat = int(difference.reshape(-1).argmax())
    index = [int(i) for i in torch.unravel_index(torch.tensor(flat), value.shape)] if value.dim() else []
    got, wanted = value.reshape(-1)[flat].item(), exact.reshape(-1)[flat].item()
    return f"worst at {index}: got {got:.6g}, oracle {wanted:.6g}"
