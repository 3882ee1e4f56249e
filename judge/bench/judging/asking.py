"""Questions to a candidate: fresh content of every family with the right answer, and who asks them."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from judge.bench.exchange.arenas import JITTER, Slot
from judge.bench.exchange.claims import Forwarded
from judge.bench.exchange.contact import Contact
from judge.bench.exchange.nested import TensorMeta, mapped, packed
from judge.bench.foreign.faults import kind_of
from judge.bench.foreign.gradients import BETWEEN
from judge.bench.judging import far_rows
from judge.bench.judging.comparison import STAGE, Fault
from judge.bench.judging.completion import Ended
from judge.bench.judging.expected import Expected, expect, layout_of
from judge.bench.judging.families import CANCELLING, FAMILIES, OFFSET, TIES, strided
from judge.bench.judging.freedoms import ADVERSARIAL, ANYTHING, Freedom, one_sided, to_try
from judge.bench.judging.parameters import Binding, State, changed
from judge.bench.judging.probes import ALL_OF_SUMS, BY_ROWS, OF_PRODUCTS, OF_SUMS, OPPOSED, Probe, in_words, mirrored
from judge.bench.judging.reference import REFUSALS, Reference
from judge.bench.judging.telling import AMPLIFIES, OPPOSES, decided, rounded_once, tells_digits, vanishes
from judge.values import CaseRecord, Finding, Gradients, JudgeError, Precision, Verdict

REDRAWN_ROUNDS = frozenset({1, 2, 4})  # parameters change before these rounds
HOPELESS = 0.25  # an honest reference this far from fp64 decides nothing
CONDENSES = 4096  # elements of input for each of output, from where parts of a sum can be left out unseen
SPOILED = 1e-3  # an error of the reference on rows far from zero that would leave a wrong kernel too much room


@dataclass(frozen=True)
class Question:
    """One set of inputs and parameters with the right answer. `previous`: the parameters that these replaced."""

    family: str
    inputs: list[Any]
    state: State
    seed: int
    expected: Expected
    previous: State | None = None

    def tensors(self) -> list[torch.Tensor]:
        return packed(self.inputs)[1]

    @property
    def decides(self) -> bool:
        """Whether the reference has an answer to judge by."""
        return not self.expected.empty and self.expected.finite and self.expected.worst <= HOPELESS

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in (*self.tensors(), *self.expected.same))

    def room(self, *, any_layout: bool = True) -> list[TensorMeta]:
        """Layouts that an arena must hold for this question, however its inputs are laid out where that is asked."""
        kept = [TensorMeta.of(target.same) for target in self.expected.state.values()]
        return [*map(_roomiest if any_layout else TensorMeta.of, self.tensors()), *self.expected.metas, *kept]

    def drop(self) -> None:
        """Keep layouts and limits only: its content is needed no more."""
        self.inputs[:] = mapped(layout_of, self.inputs)
        self.expected.drop()


def _roomiest(tensor: torch.Tensor) -> TensorMeta:
    shape = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    return max(TensorMeta.of(tensor), TensorMeta.of(strided(shape)), key=lambda meta: meta.nbytes)


def call(template: Any, ins: list[Slot], outs: list[Slot], seed: int) -> dict[str, Any]:
    """Fields of a call: arguments as JSON, places of inputs and outputs, the RNG seed."""
    places = {"slots": [slot.to_json() for slot in ins], "out": [slot.to_json() for slot in outs]}
    return {"args": template, **places, "seed": seed}


class Questions:
    """Draws questions for one reference; remembers which parameters count and what had to be left out."""

    def __init__(self, reference: Reference) -> None:
        self.reference = reference
        self.seeded = False  # parameters may only be those that some seed gives
        self.state: State = reference.first
        self.previous: State | None = None
        self.left_out: list[tuple[str, str]] = []  # family, why
        self._first: Question | None = None
        self._drawn: deque[tuple[int, Question]] = deque()  # ahead of being asked for
        self._rest: Iterator[tuple[int, Question]] | None = None

    def question(self, family: str, state: State, seed: int | None = None, freedom: Freedom = ANYTHING) -> Question:
        """Fresh inputs of `family`; entropy unless a seed is given. Raises what the reference raises."""
        learned = self.reference.learned
        kinks = self.reference.policy.gradients is not Gradients.NONE  # where any subgradient would be right
        if kinks or (learned is not None and learned.traits.ties_open):
            freedom = Freedom(ties=False, indices=freedom.indices)
        inputs = self.reference.inputs(family, secrets.randbits(62) if seed is None else seed, freedom)
        run_seed = secrets.randbits(31) if seed is None else seed
        by_rows, sums = family.startswith(BY_ROWS), family in ALL_OF_SUMS
        expected = expect(self.reference, inputs, state, run_seed, by_rows=by_rows, sums=sums)
        previous = self.previous if state is self.state else self.state
        return Question(family, inputs, state, run_seed, expected, previous)

    def first(self, seed: int | None) -> Question:
        """The smoke question: inputs as given, parameters as constructed. Raises Ended when the problem is unfit."""
        if self._first is not None and seed is None:
            return self._first
        question = self.question(FAMILIES[0], self.reference.first, seed)
        if question.expected.empty:
            raise Ended(
                Verdict.REFUSED_PROBLEM,
                "correctness",
                "problem.empty",
                "the reference returns no tensor with an element, so there is nothing to compare",
            )
        if question.expected.worst > HOPELESS:
            raise Ended(
                Verdict.REFUSED_PROBLEM,
                "correctness",
                "problem.ill_conditioned",
                f"the reference is {question.expected.worst:.2g} of the output's spread away from fp64; "
                "no candidate can be judged",
            )
        if seed is None:
            self._first = question
        return question

    def follow_seeds(self) -> None:
        """From now on parameters are those that some seed gives; what was drawn with others is of no use."""
        if not self.seeded:
            self._drawn.clear()
            self._rest, self.left_out, self.state, self.previous = None, [], self.reference.first, None
            self.seeded = True

    def reseeded(self, first: Question) -> Question:
        """A first question with parameters of another seed than those of `first`, which then stay; `first` if the
        reference has no answer to judge by for them."""
        found = self._attempt(first.family, self.reference.reseeded(), ANYTHING)
        if not isinstance(found, Question):
            return first
        self.previous, self.state = self.state, found.state
        return found

    def done_with(self, question: Question) -> None:
        """Its content is needed no more: it goes, where memory is short."""
        if self.reference.lean:
            question.drop()
            self.reference.relieve()

    def draw_ahead(self) -> int:
        """Draw one question, the first one first, before anybody asks for it. Its bytes; 0 when there is none left."""
        if self._first is None:
            return self.first(None).nbytes
        if self._rest is None:
            self._rest = self._draw()
        for number, question in self._rest:
            self._drawn.append((number, question))
            return question.nbytes
        return 0

    def rounds(self) -> Iterator[tuple[int, Question]]:
        """(number, question) of every round after the first; what was not drawn ahead is drawn when asked for."""
        rest = self._rest or self._draw()
        while self._drawn:
            yield self._drawn.popleft()
        yield from rest

    def _draw(self) -> Iterator[tuple[int, Question]]:
        for number, family in list(enumerate(FAMILIES))[1:]:
            question = self._answerable(family, redraw=self._changes_before(number))
            if question is not None:
                yield number, question
        yield from enumerate(self._properties(), start=len(FAMILIES))

    def one_sided(self) -> Question | None:
        """Inputs that all lie below zero, for references to which that matters; None where there is none to ask."""
        learned = self.reference.learned
        freedom = one_sided(learned.traits) if learned is not None and not learned.random else None
        if freedom is None or learned is None or freedom.probe in learned.unfit:
            return None
        for state in [self._leaning(self.state, freedom), self.state]:
            found = self._attempt(ADVERSARIAL, state, freedom)
            if isinstance(found, Question):
                return found
        self._vain(freedom)
        return None

    def _leaning(self, state: State, freedom: Freedom) -> State:
        leans = freedom.far is not None and freedom.far.shared and not self.seeded
        return changed(state, far_rows.leaning) if leans else state

    def _changes_before(self, number: int) -> bool:
        """Whether parameters change before that round. Those of a seed do once: a candidate constructs its model anew
        for each, so that no call of an old one is left to be wrong about them."""
        return self.state is self.reference.first if self.seeded else number in REDRAWN_ROUNDS

    def _properties(self) -> Iterator[Question]:
        """Rounds for references of one kind: that order equal elements, compensate, sum very much, or multiply."""
        learned, gradients = self.reference.learned, self.reference.policy.gradients is not Gradients.NONE
        if learned is None:
            return
        if gradients and not self.reference.lean:  # it takes what two forwards keep
            question = self._answerable(BETWEEN, redraw=False)
            if question is not None:
                yield question
        if learned.random:
            return
        yield from self._probes()
        if gradients:
            return
        ruled, steps = learned.traits.tie_rule, learned.traits.steps and learned.fp64
        if (ruled or steps) and not learned.traits.ties_open:
            question = self._answerable(TIES, redraw=False)
            if question is not None and (ruled or decided(question.expected)):
                yield question
        for family in (CANCELLING, OFFSET) if learned.traits.may_compensate else ():
            question = self._answerable(family, redraw=False)
            if question is not None and any(map(rounded_once, question.expected.outputs)):
                yield question

    def _probes(self) -> Iterator[Question]:
        learned, strict = self.reference.learned, self.reference.policy.precision is Precision.STRICT
        assert learned is not None
        wanted: list[Probe] = []
        if learned.condenses >= CONDENSES:
            wanted += OF_SUMS
        shows_digits = learned.traits.multiplies and not learned.traits.selects and learned.fp64 and strict
        if shows_digits:
            wanted += OF_PRODUCTS
        for probe in wanted:
            question = self._of_probe(probe)
            if question is not None:
                yield question
        if shows_digits and not self.seeded:
            cancelling = self._attempt(OPPOSED, changed(self.state, mirrored), ANYTHING)
            if isinstance(cancelling, Question) and tells_digits(cancelling.expected, OPPOSES):
                yield cancelling

    def _of_probe(self, probe: Probe) -> Question | None:
        """The most telling amount of `probe` that the reference has an answer for, found once for all candidates."""
        learned = self.reference.learned
        assert learned is not None
        for number in range(learned.unfit.get(probe, 0), len(probe)):
            found = self._attempt(probe[number], self.state, ANYTHING)
            if isinstance(found, Question) and (probe in OF_SUMS or tells_digits(found.expected, AMPLIFIES)):
                return found
            learned.unfit[probe] = number + 1
        return None

    def _answerable(self, family: str, *, redraw: bool) -> Question | None:
        """A question of `family`; None, and a record of why, where the reference has no answer to judge by."""
        why = ""
        for state, freedom in self._attempts(family, redraw):
            found = self._attempt(family, state, freedom)
            if isinstance(found, Question):
                if state is not self.state:
                    self.previous, self.state = self.state, state
                return found
            why = found
        self.left_out.append((family, why))
        return None

    def _attempts(self, family: str, redraw: bool) -> Iterator[tuple[State, Freedom]]:
        """Parameters and freedoms to try, from the most telling to those that any reference takes."""
        freedoms = self._freedoms(family)
        for freedom in freedoms:
            state = self._redrawn() if redraw else self.state
            yield self._leaning(state, freedom), freedom
            self._vain(freedom)
        if redraw:
            yield self._redrawn(gently=True), freedoms[-1]
            yield self.state, freedoms[-1]

    def _freedoms(self, family: str) -> list[Freedom]:
        """What is in vain for one candidate is not tried for the next."""
        learned, strict = self.reference.learned, self.reference.policy.precision is Precision.STRICT
        return [ANYTHING] if learned is None else to_try(family, learned.traits, learned.unfit, strict=strict)

    def _vain(self, freedom: Freedom) -> None:
        if self.reference.learned is not None and freedom.telling:
            self.reference.learned.unfit[freedom.probe] = 1

    def _redrawn(self, *, gently: bool = False) -> State:
        return self.reference.reseeded() if self.seeded else self.reference.redrawn(gently=gently)

    def _attempt(self, family: str, state: State, freedom: Freedom) -> Question | str:
        """A reference may refuse content it was not made for: binary cross entropy wants probabilities.

        A lack of memory is no such refusal: a candidate that holds it all would then be asked nothing more.
        """
        try:
            question = self.question(family, state, freedom=freedom)
        except REFUSALS as error:
            if kind_of(error) == "oom":
                raise MemoryError(f"the referee cannot ask for inputs {family!r}: {error}") from error
            if self.reference.whereabouts.device_lost():
                raise JudgeError(f"the referee cannot ask for inputs {family!r}: {error}") from error
            return f"the reference raised {type(error).__name__}: {error}"
        expected = question.expected
        judged_by_place = family == "given" and all(error.finite for error in expected.reference_errors)
        if not (expected.finite or judged_by_place) or expected.worst > HOPELESS:
            return "the oracle is not finite or too uncertain"
        if freedom.telling and (expected.worst > SPOILED or vanishes(expected)):
            return "what lies far from zero leaves too few digits"
        return question


class Slots(NamedTuple):
    """Where one question lies in the arena; `kept` takes what forward leaves in parameters and buffers."""

    ins: list[Slot]
    outs: list[Slot]
    kept: dict[str, Slot]


class Asker:
    """One subject's rounds: puts questions to it.

    `repeats`: how often one question, chosen by chance, is asked again: answers to equal content must agree.
    """

    def __init__(
        self,
        reference: Reference,
        contact: Contact,
        fit: Binding,
        case: str | None,
        questions: Questions | None = None,
    ) -> None:
        self.reference = reference
        self.contact = contact
        self.fit = fit
        self.case = case or "as written"
        self.repeats = 0
        self.questions = questions or Questions(reference)
        self.records: list[CaseRecord] = []
        self.findings: list[Finding] = []
        self.codes: dict[str, str] = {}  # of the kernels that were launched to answer: code -> name
        self.by_chance = False  # its outputs are random and not the reference's draws: compared as distributions
        self.values: list[torch.Tensor] = []  # outputs of the answer judged last
        self._put = False
        self._used: State | None = None

    def tell(self, question: Question, *, count: bool = False, poison: bool = False) -> Slots:
        """Write the question into the arena and start the call."""
        self._use(question.state)
        expected = question.expected
        kept = [TensorMeta.of(target.same) for target in expected.state.values()]
        jitter, laid = secrets.randbelow(JITTER), [*expected.metas, *kept]
        ins, all_outs = self.contact.lay_out(question.tensors(), laid, jitter, expanded=True)
        outs, rest = all_outs[: len(expected.metas)], all_outs[len(expected.metas) :]
        slots = Slots(ins, outs, dict(zip(expected.state, rest, strict=True)))
        keep = [[self.fit.theirs(name), slot.to_json()] for name, slot in slots.kept.items()]
        asked = call(packed(question.inputs)[0], ins, outs, question.seed)
        self.contact.tell(Forwarded, **asked, keep=keep, poison=poison, count=count, spare=self.reference.lean)
        if expected.state:
            self._used = None  # the call changes what it was given: the next one gets it anew
        return slots

    def ask(self, question: Question, *, poison: bool = False) -> tuple[Forwarded, Slots]:
        """Tell and wait. Raises SubjectFailed."""
        slots = self.tell(question, poison=poison)
        return self.contact.answer(Forwarded), slots

    def _use(self, state: State) -> None:
        if not self._put or state is not self._used:
            self.fit.give(self.contact, state, again=self._put)
            self._put, self._used = True, state

    def check_bands(self, slots: Slots) -> None:
        """Nothing beside a slot may have been written to. Raises Ended."""
        every = [*slots.ins, *slots.outs, *slots.kept.values()]
        broken = self.contact.arena.broken_band(every)
        if broken is None:
            return
        inputs, outputs = len(slots.ins), len(slots.outs)
        what = f"input {broken}" if broken < inputs else f"output {broken - inputs}"
        if broken >= inputs + outputs:
            what = "the parameters"
        raise Ended(Verdict.WRONG, STAGE, "value.guard_band", f"memory beside {what} was written to")

    def failed(self, question: Question, number: int, fault: Fault) -> Ended:
        """The ending for a wrong output, recorded as a round."""
        limit = question.expected.outputs[number].allowed
        found = fault.found.rms if fault.found is not None and fault.found.finite else None
        self.records.append(
            CaseRecord(self.case, question.family, False, error=found, allowed=limit.rms, detail=fault.text[:400])
        )
        words = in_words(question.family)
        where = f"{question.expected.title(number)}, inputs {question.family!r}{f' ({words})' if words else ''}"
        if self.fit.by_position:
            where += "; parameters were matched by position, check their order"
        return Ended(fault.verdict, STAGE, fault.reason, f"{where}: {fault.text}")
