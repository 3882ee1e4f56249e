"""Correctness rounds: fresh content every time, bytes compared with the oracle by the referee's own code."""

from __future__ import annotations

import secrets
import statistics
from dataclasses import dataclass, replace

import torch

from judge.bench.exchange.claims import Forwarded
from judge.bench.judging import diagnosis, stochastic
from judge.bench.judging.asking import Asker, Question, Questions, Slots
from judge.bench.judging.comparison import (
    STAGE,
    check_accumulated,
    check_aliases,
    check_kept,
    check_structure,
    compared,
    fault_of,
)
from judge.bench.judging.completion import Ended
from judge.bench.judging.diagnosis import decided_by_rounding, explain
from judge.bench.judging.expected import Expected, Target, same_bits
from judge.bench.judging.families import CENTRED
from judge.bench.judging.parameters import SEEDED, Binding
from judge.bench.judging.precision import ILL_CONDITIONED, Errors, kept_bits
from judge.bench.judging.probes import ALL_OF_SUMS, in_words
from judge.bench.judging.stochastic import ByChance
from judge.values import CaseRecord, Finding, Precision, Verdict

POISONED_ROUNDS = frozenset({1})  # uninitialised memory reads as a marked NaN; it slows the interpreter
LAID_OUT_ROUNDS = frozenset({1})  # asked once more with inputs that are not contiguous
REPEATS = 2  # where calls take microseconds and races can show
AHEAD_BYTES = 256 << 20  # a larger question is not drawn before the one in hand is done


@dataclass(frozen=True)
class Bits:
    """Bits of operands that are left in the answers of the round that shows the fewest; the reference's there."""

    kept: float
    reference: float
    family: str


class Rounds(Asker):
    """Asks one subject every round; stops at the first wrong answer by raising Ended.

    `bits`: what products keep, as far as the rounds have shown it. `telling`: of a sum over very much, the content on
    which a part left out shows most.
    """

    drops = False  # content goes when it has been judged, where memory is short
    bits: Bits | None = None
    telling: Question | None = None

    def judge(self, question: Question, reply: Forwarded, slots: Slots, stage: str) -> CaseRecord:
        """Check one answer: structure, neighbouring memory, state, values. Raises Ended."""
        expected = question.expected
        self.codes |= dict(reply.codes)
        self._note_switches(reply, expected)
        check_structure(reply, expected, stage)
        self.values = values = self.contact.take(slots.outs)
        self.check_bands(slots)
        self._check_inputs(question, slots)
        check_aliases(reply, expected)
        check_accumulated(reply)
        check_kept(reply, self.reference.kept, stage)
        record = self._check_values(question, values)
        self._check_kept(question, reply, slots)
        self.records.append(record)
        return record

    def take(self, fit: Binding) -> None:
        """How the subject's parameters map, once it has constructed its model."""
        self.fit = fit
        if fit.seeded:
            self.questions.follow_seeds()

    def run(self, asked: Question, answer: Forwarded, slots: Slots) -> None:
        """All rounds; the first question was already asked in the smoke stage.

        Under equal seeding a candidate may derive what it needs in its constructor, where parameters given later do not
        reach it: one that goes wrong with them is asked everything again with parameters it makes itself.
        """
        try:
            self._run(asked, answer, slots)
        except Ended as ended:
            if not self._may_be_seeded(ended):
                raise
            self._start_seeded(ended)
            asked = self.questions.reseeded(asked)
            answer, slots = self.ask(asked)
            self._run(asked, answer, slots)

    def _may_be_seeded(self, ended: Ended) -> bool:
        if not self.reference.policy.equal_seeding or self.fit.seeded or self.fit.hook:
            return False
        return ended.verdict in (Verdict.WRONG, Verdict.NOT_FINITE) or ended.reason == "state.stale_params"

    def _start_seeded(self, ended: Ended) -> None:
        self.fit, self._put, self._used, self.by_chance = SEEDED, False, None, False
        self.bits = self.telling = None
        self.questions = Questions(self.reference)
        self.questions.follow_seeds()
        self.records.clear()  # the referee holds this very list
        text = f"with the reference's parameters it ended as {ended.verdict} ({ended.reason})"
        self.findings[:] = [Finding("load.derived", text)]

    def _run(self, asked: Question, answer: Forwarded, slots: Slots) -> None:
        self._note_facts(asked)
        self.judge(asked, answer, slots, "smoke")
        if not self.reference.policy.equal_seeding:  # else it may be asked again
            self._done_with(asked)
        repeated = 1 + secrets.randbelow(4)
        coming = self.questions.rounds()
        number, question = next(coming, (0, None))
        while question is not None:
            slots = self.tell(question, poison=number in POISONED_ROUNDS)
            ahead = question.nbytes <= AHEAD_BYTES and not self.reference.lean
            following = next(coming, (0, None)) if ahead else None  # drawn while the candidate computes
            self.judge(question, self.contact.answer(Forwarded), slots, STAGE)
            if self.telling is None and question.family in ALL_OF_SUMS:
                self.telling = question
            self._look_closer(number, question, repeat=number == repeated)
            self._done_with(question)
            number, question = following or next(coming, (0, None))
        for family, why in self.questions.left_out:
            self.records.append(CaseRecord(self.case, family, ok=True, detail=f"left out: {why}"[:400]))

    def _done_with(self, question: Question) -> None:
        if self.drops and self.reference.lean:
            self.values = []
            self.questions.done_with(question)

    def to_time(self, first: Question) -> Question:
        """The question whose content and limits timed calls have: `first`, unless other content tells more.

        Its parameters are the reference's first ones, or those that a candidate which makes its own has made last.
        """
        state = self.questions.state if self.fit.seeded else self.reference.first
        return replace(self.settled(self.telling or first), state=state)

    def settled(self, question: Question) -> Question:
        """`question` as a measurement compares with it: numbers that both sides draw for themselves differ."""
        if not self.by_chance:
            return question
        expected = question.expected
        outputs = [
            replace(target, allowed=ByChance()) if stochastic.eligible(expected, number) else target
            for number, target in enumerate(expected.outputs)
        ]
        return replace(question, expected=replace(expected, outputs=outputs))

    def noticed(self) -> list[Finding]:
        """What the rounds noticed that is no verdict."""
        found = list(self.findings)
        if self.bits is not None:
            found.append(_bits_finding(self.bits))
        switched = dict(self.contact.switched)
        if switched:
            names = ", ".join(f"{name} ({doing})" for name, doing in list(switched.items())[:8])
            text = f"the candidate turned process-wide switches, which were put back after the call: {names}"
            found.append(Finding("state.flags", text, {"switches": switched}))
        if self.contact.prepare_us:
            typical = statistics.median(self.contact.prepare_us)
            text = f"prepare() takes {typical:,.0f} µs after a change of parameters; no timed call contains it"
            found.append(Finding("time.prepare", text, {"us": self.contact.prepare_us}))
        return found

    def _note_switches(self, reply: Forwarded, expected: Expected) -> None:
        if reply.drew and not expected.random:
            self.contact.switched.setdefault("random_state", self.contact.doing)
        if reply.grads:
            self.contact.switched.setdefault("grad_mode", self.contact.doing)

    def _look_closer(self, number: int, question: Question, *, repeat: bool) -> None:
        if question.expected.random:
            return
        if repeat:
            diagnosis.check_repeats(self, question, self.values, self.repeats)
        if number in LAID_OUT_ROUNDS:
            diagnosis.try_layout(self, question, self.values)
        if question.family == CENTRED:
            self._note_doubt(question)

    def _check_inputs(self, question: Question, slots: Slots) -> None:
        """Inputs are as the reference leaves them: bit for bit, or within the allowed error where it writes to them."""
        expected = question.expected
        arena = self.contact.arena
        for number, (slot, after) in enumerate(zip(slots.ins, expected.inputs_after, strict=True)):
            found = arena.view(slot)
            target = expected.in_place.get(number)
            if target is None and same_bits(found, after.to(arena.memory.device)):
                continue
            fault = None if target is None else fault_of(target, found.clone().to(self.reference.device))
            if target is not None and fault is None:
                continue
            text = f": {fault.text}" if fault is not None else "; work on a copy"
            raise Ended(
                Verdict.STATE_VIOLATION,
                STAGE,
                "state.input_changed",
                f"after forward, input {number} differs from what the reference leaves{text}",
            )

    def _check_values(self, question: Question, values: list[torch.Tensor]) -> CaseRecord:
        worst = (0.0, 0.0)
        chance = ""
        for number, (target, value) in enumerate(zip(question.expected.outputs, values, strict=True)):
            fault, error = compared(target, value)
            if fault is None:
                self._note_bits(question.family, target, error)
                limit = 0.0 if target.integer else target.allowed.rms
                worst = max(worst, (error, limit), key=lambda row: row[0] / row[1] if row[1] else 0.0)
            elif stochastic.eligible(question.expected, number):
                chance = stochastic.check(self, question, number, value)
            elif not decided_by_rounding(self, question, number, value):
                explain(self, question, number, value, fault)
                raise self.failed(question, number, fault)
        detail = chance or ("" if question.expected.fp64 else "oracle in the reference's own type")
        return CaseRecord(self.case, question.family, ok=True, error=worst[0], allowed=worst[1], detail=detail)

    def _note_bits(self, family: str, target: Target, error: float) -> None:
        learned, strict = self.reference.learned, self.reference.policy.precision is Precision.STRICT
        if (
            learned is None
            or not (learned.traits.multiplies and learned.fp64 and strict)
            or target.integer
            or target.error.vanish
        ):
            return
        kept = kept_bits(Errors(error, error), target.coarse, target.same.dtype)
        own = kept_bits(target.error, target.coarse, target.same.dtype)
        if kept is not None and own is not None and (self.bits is None or kept < self.bits.kept):
            self.bits = Bits(kept, own, family)

    def _check_kept(self, question: Question, reply: Forwarded, slots: Slots) -> None:
        """What forward writes to buffers (running statistics in train mode) must be what the reference writes."""
        copies = self.contact.take(list(slots.kept.values()))
        for (name, target), value in zip(question.expected.state.items(), copies, strict=True):
            theirs = self.fit.theirs(name)
            fault = fault_of(target, value)
            if theirs not in reply.missing and fault is None:
                continue
            text = "it has none of that name and shape" if theirs in reply.missing or fault is None else fault.text
            raise Ended(
                Verdict.STATE_VIOLATION,
                STAGE,
                "state.buffers",
                f"after forward, ModelNew's {theirs} is not what the reference leaves in {name}: {text}",
            )

    def _note_facts(self, asked: Question) -> None:
        if asked.expected.worst > ILL_CONDITIONED:
            text = f"the reference itself is {asked.expected.worst:.2g} of the output's spread away from fp64"
            self.findings.append(Finding("problem.ill_conditioned", text, {"error": asked.expected.worst}))
        if self.fit.by_position:
            pairs = [list(pair) for pair in self.fit.pairs]
            self.findings.append(Finding("load.by_position", "parameters were matched by position", {"pairs": pairs}))
        if self.fit.seeded:
            self.findings.append(Finding("load.seeded", "parameters come from an equal seed, not from the reference"))

    def _note_doubt(self, question: Question) -> None:
        """Say when a coarser format would have passed as well: then the verdict says nothing about precision."""
        if self.reference.policy.precision is not Precision.STRICT:
            return
        for number, target in enumerate(question.expected.outputs):
            coarse = target.coarse
            if (
                coarse is not None
                and coarse.finite
                and coarse.rms > 0
                and not target.error.vanish
                and target.allowed.holds(coarse)
            ):
                title = question.expected.title(number)
                text = f"{title}: a coarser format would be within the allowed error, so it cannot be told apart"
                data = {"coarse": coarse.rms, "allowed": target.allowed.rms}
                self.findings.append(Finding("precision.unclear", text, data))


def _bits_finding(bits: Bits) -> Finding:
    words = in_words(bits.family)
    text = (
        f"where it keeps the fewest, {bits.kept:.0f} bits of operands are left in its products, {bits.reference:.0f} "
        f"in PyTorch's on the same content: inputs {bits.family!r}{f' ({words})' if words else ''}"
    )
    data = {"kept": round(bits.kept, 1), "reference": round(bits.reference, 1), "family": bits.family}
    return Finding("precision.bits", text, data)
