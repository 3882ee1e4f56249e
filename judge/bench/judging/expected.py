"""What a right answer looks like for one set of inputs and parameters, and how far from it one may be."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from judge.bench.exchange.nested import TensorMeta, packed
from judge.bench.exchange.parts import in_parts
from judge.bench.judging.distances import Distances
from judge.bench.judging.memory_plan import OWN, SLICES, WHOLE
from judge.bench.judging.parameters import State
from judge.bench.judging.precision import (
    CUT,
    FP32_ROUNDOFF,
    ORDER,
    TF32,
    UNITS_MAX,
    Allowed,
    Errors,
    Gathered,
    allowed,
    coarse_kind,
    errors,
    joined,
    row_weights,
    weighted_errors,
)
from judge.bench.judging.reference import REFUSALS, Answer, Learned, Reference
from judge.bench.judging.slices import Slices, cuts_of
from judge.bench.judging.traits import Traits, traits_of
from judge.values import SWITCHES, Precision

CUT_ROOM = 1.25  # times the error of dropped digits
EVERYWHERE = slice(None)
Asked = tuple[list[Any], State, int]  # inputs, parameters, seed
DRIFT = 10.0  # a reference is random when another seed changes it this much more than another run does


@dataclass(frozen=True)
class Target:
    """One tensor that a right answer has: an output, an input changed in place, a parameter or buffer written to."""

    same: torch.Tensor  # the honest same-dtype reference
    oracle: torch.Tensor  # fp64 where the reference can, else as `same`
    allowed: Allowed
    error: Errors  # of `same` against the oracle
    coarse: Errors | None  # of the reference in the next coarser format
    exact: torch.Tensor | None = None  # an integer or boolean that fp64 decides otherwise; either is right
    weights: torch.Tensor | None = None  # of its elements, where each row's error counts beside the row's own size
    slices: Slices | None = None  # where the oracle is kept nowhere: `oracle` is then `same`
    number: int = 0  # of the tensor in the slices

    @property
    def integer(self) -> bool:
        return not self.same.is_floating_point() and not self.same.is_complex()

    def errors(self, value: torch.Tensor) -> Errors:
        """Errors of `value`, as `allowed` limits them."""
        if self.slices is None:
            return weighted_errors(value, self.oracle, self.weights)
        found = Gathered()
        for start, rows, exact in self.slices.exact(self.number):
            found.add(value.narrow(0, start, rows), exact, row_weights(exact) if self.slices.by_rows else None)
        return found.errors()

    def best(self) -> float:
        """RMS error of what is right to the last digit but for one rounding to the type."""
        if self.slices is None:
            return errors(self.oracle.to(self.same.dtype), self.oracle).rms
        found = Gathered()
        for _, _, exact in self.slices.exact(self.number):
            found.add(exact.to(self.same.dtype), exact)
        return found.errors().rms

    def dropped(self) -> Target:
        """Layout and limits only."""
        same, oracle = layout_of(self.same), layout_of(self.oracle)
        return replace(self, same=same, oracle=oracle, exact=None, weights=None, slices=None)

    def agrees(self, value: torch.Tensor) -> torch.Tensor:
        """Elementwise: an integer is right when the reference gives it in its own precision or in fp64."""
        right = value == self.same
        return right if self.exact is None else right | (value == self.exact)


@dataclass(frozen=True)
class Expected:
    """Targets of one question. `inputs_after` holds every input tensor as the reference leaves it."""

    template: Any
    exact_template: Any  # with Python floats as fp64 gives them
    metas: list[TensorMeta]
    outputs: list[Target]
    in_place: dict[int, Target]  # by number of the input
    state: dict[str, Target]  # by the reference's name
    inputs_after: list[torch.Tensor]
    aliases: list[list[int]]
    fp64: bool
    random: frozenset[int]  # outputs that are drawn: another seed, other numbers
    scalar_slack: float = 0.0  # relative error that a Python float in the output may have
    titles: tuple[str, ...] = ()  # of the outputs, for messages
    gradients: int = 0  # outputs that are gradients, after those of forward
    shared: frozenset[tuple[int, int]] = frozenset()  # (output, input) that may share memory, too

    def title(self, number: int) -> str:
        """What output `number` is."""
        return self.titles[number] if number < len(self.titles) else f"output {number}"

    def is_gradient(self, number: int) -> bool:
        """Whether output `number` is a gradient."""
        return number >= len(self.outputs) - self.gradients

    @property
    def targets(self) -> list[Target]:
        return [*self.outputs, *self.in_place.values(), *self.state.values()]

    @property
    def allowed(self) -> list[Allowed]:
        return [target.allowed for target in self.outputs]

    @property
    def oracle(self) -> list[torch.Tensor]:
        return [target.oracle for target in self.outputs]

    @property
    def same(self) -> list[torch.Tensor]:
        return [target.same for target in self.outputs]

    @property
    def reference_errors(self) -> list[Errors]:
        return [target.error for target in self.targets]

    @property
    def worst(self) -> float:
        """RMS error of the honest reference where it is farthest from the oracle; not of gradients that vanish, unless
        all do."""
        gradients = [target for number, target in enumerate(self.outputs) if self.is_gradient(number)]
        tells = any(not target.error.vanish for target in gradients)
        left_out = {id(target) for target in gradients if tells and target.error.vanish}
        return max((target.error.rms for target in self.targets if id(target) not in left_out), default=0.0)

    @property
    def finite(self) -> bool:
        floating = [target.oracle for target in self.targets if not target.integer]
        return all(map(all_finite, floating)) and all(error.finite for error in self.reference_errors)

    def drop(self) -> None:
        """Keep layouts and limits only."""
        self.outputs[:] = [target.dropped() for target in self.outputs]
        self.in_place.update({number: target.dropped() for number, target in self.in_place.items()})
        self.state.update({name: target.dropped() for name, target in self.state.items()})
        self.inputs_after[:] = map(layout_of, self.inputs_after)

    @property
    def empty(self) -> bool:
        """Whether nothing would be compared."""
        return not any(target.same.numel() for target in self.outputs)


def expect(
    reference: Reference, inputs: list[Any], state: State, seed: int, *, by_rows: bool = False, sums: bool = False
) -> Expected:
    """The right answer for `inputs`, which are left alone. Raises what the reference raises.

    `by_rows`: errors count beside the size of the row that they are in, not beside the whole output's spread. `sums`:
    the content asks for what is left out of sums, and says nothing about the precision of products.
    """
    return _Oracle(reference, inputs, state, seed, by_rows=by_rows, sums=sums).expected()


class _Oracle:
    """One question, answered in several precisions."""

    def __init__(
        self, reference: Reference, inputs: list[Any], state: State, seed: int, *, by_rows: bool, sums: bool
    ) -> None:
        self.reference = reference
        self.by_rows = by_rows
        self.sums = sums
        self.asked = (inputs, state, seed)
        self.before = packed(inputs)[1]
        same = reference.planned(*self.asked)
        pairs = enumerate(zip(self.before, same.inputs, strict=True))
        self.written = [number for number, (old, new) in pairs if not same_bits(old, new)]
        after = [same.inputs[n] if n in self.written else old for n, old in enumerate(self.before)]
        self.same = replace(same, inputs=after)
        reference.relieve()
        self.learned = reference.learned or self._learn()
        reference.learned = self.learned

    def expected(self) -> Expected:
        same, written = self.same, self.written
        template = same.template
        targets = self._in_slices()
        if targets is None:
            template, targets = self._whole()
        self.reference.relieve()
        first_input, first_state = len(same.outputs), len(same.outputs) + len(written)
        return Expected(
            template=same.template,
            exact_template=template,
            metas=[TensorMeta.of(tensor) for tensor in same.outputs],
            outputs=targets[:first_input],
            in_place=dict(zip(written, targets[first_input:first_state], strict=True)),
            state=dict(zip(same.state, targets[first_state:], strict=True)),
            inputs_after=same.inputs,
            aliases=same.aliases,
            fp64=self.learned.fp64,
            random=self.learned.random,
            scalar_slack=UNITS_MAX * FP32_ROUNDOFF * self.learned.traits.length**0.5,
            titles=tuple(map(self.reference.gradients.title, range(len(same.outputs)))),
            gradients=self.reference.gradients.among(len(same.outputs)),
            shared=self.reference.gradients.shared(self.asked[0], len(same.outputs)),
        )

    def _whole(self) -> tuple[Any, list[Target]]:
        """Every answer in full."""
        template, exact = self._exact()
        self.reference.oracle = WHOLE if self.learned.fp64 else OWN
        parts = self.same.parts(self.written)
        shapes = [tensor.shape for tensor in self.same.outputs]
        found = [Distances(part, by_rows=self.by_rows) for part in parts]
        self._add(found, EVERYWHERE, self.asked, exact, shapes)
        targets = [self._limited(*row) for row in zip(parts, exact, found, strict=True)]
        if self.by_rows:
            targets = [one if one.integer else replace(one, weights=row_weights(one.oracle)) for one in targets]
        return template, targets

    def _add(
        self, found: list[Distances], at: slice, asked: Asked, exact: list[torch.Tensor], shapes: list[torch.Size]
    ) -> None:
        coarse = self._coarse(asked, shapes)
        reduced = [self._reduced(kind, asked, shapes) for kind in (TF32, CUT)]
        for number, (distances, right) in enumerate(zip(found, exact, strict=True)):
            rounded, cut = (None if one is None else one[number] for one in reduced)
            distances.add(at, right, [one[number] for one in coarse], rounded, cut)

    def _in_slices(self) -> list[Target] | None:
        """Targets without an oracle of their own; None where there is memory for one, or rows depend on each other."""
        plan = self.reference.plan
        if plan is None or not plan.lean or not self.learned.fp64 or self.learned.in_slices is False:
            return None
        choices, rows = cuts_of(self.before, self.same, self.written)
        for cut in choices:
            slices = Slices(self.reference, self.asked, self.written, cut, rows, plan, by_rows=self.by_rows)
            found = self._sliced(slices)
            if found is not None:
                self.learned.in_slices, self.learned.cut, self.reference.oracle = True, cut, SLICES
                return found
        self.learned.in_slices = False
        return None

    def _sliced(self, slices: Slices) -> list[Target] | None:
        """One pass over the slices: whether each agrees with the whole, and how far every format is from fp64."""
        parts = self.same.parts(self.written)
        found = [Distances(part, by_rows=self.by_rows) for part in parts]
        for place in slices.places():
            if not slices.agree(place, self.same.template, parts, self.learned.traits.length):
                return None
            exact = slices.wide(place)
            if exact is None:
                return None
            right = exact.parts(self.written)
            asked = (slices.inputs(*place), self.asked[1], self.asked[2])
            self._add(found, slice(place[0], sum(place)), asked, right, [tensor.shape for tensor in exact.outputs])
        rows = enumerate(zip(parts, found, strict=True))
        return [
            replace(self._limited(part, part, distances), slices=slices, number=number)
            for number, (part, distances) in rows
        ]

    def _learn(self) -> Learned:
        inputs, state, seed = self.asked
        answer = self.reference.answer
        again: list[Answer] = []
        traits = Traits()
        try:
            traits = traits_of(lambda: again.append(answer(inputs, state, seed ^ 1)))
        except REFUSALS as error:  # some operators cannot be watched
            self.reference.note(error)
            again.append(answer(inputs, state, seed ^ 1))
        change = _differences(again[0], self.same)
        drift = _differences(answer(inputs, state, seed), self.same) if any(change) else change
        # Atomics differ from run to run too, whatever the seed, and by far less.
        random = frozenset(n for n, (far, near) in enumerate(zip(change, drift, strict=True)) if far > DRIFT * near)
        given, left = (sum(t.numel() for t in tensors) for tensors in (self.before, self.same.outputs))
        # Other types draw other numbers: fp64 would be no oracle.
        return Learned(traits, random, fp64=not random, condenses=given / max(1, left))

    def _exact(self) -> tuple[Any, list[torch.Tensor]]:
        """The reference in fp64; its own answer where it cannot (a hard-coded dtype, a random mask)."""
        if self.learned.fp64:
            found = self.reference.answer_in(torch.float64, *self.asked)
            if found is not None and _alike(found, self.same):
                self.reference.relieve()
                return found.template, found.parts(self.written)
            self.learned.fp64 = False
        return self.same.template, self.same.parts(self.written)

    def _coarse(self, asked: Asked, shapes: list[torch.Size]) -> list[list[torch.Tensor]]:
        """The reference one format down, or in the formats that the policy allows; none where there is none to ask."""
        kinds = {coarse_kind(tensor.dtype) for tensor in self.same.outputs} - {None}
        if len(kinds) != 1:
            return []
        (kind,) = kinds
        assert kind is not None
        reference, wide = self.reference, self.learned.fp64
        halves = self._halves and kind == TF32
        found = [reference.answer_in(torch.bfloat16, *asked)] if halves else []
        found.append(reference.answer_at("bfloat16" if halves else kind, *asked, wide=wide))
        return [answer.parts(self.written) for answer in found if answer is not None and self._fits(answer, shapes)]

    @property
    def _halves(self) -> bool:
        return self.reference.policy.precision is Precision.HALF

    def _reduced(self, kind: str, asked: Asked, shapes: list[torch.Size]) -> list[torch.Tensor] | None:
        """The reference with operands rounded to `kind` where the policy's switches allow TF32; None where nowhere.

        A GPU's own answer may have used TF32 or not: its libraries decide that by size. Libraries round what a kernel's
        tensor cores cut off, and cutting shifts sums of one sign by far more than rounding does.
        """
        precision = self.reference.policy.precision
        if self._halves or not SWITCHES[precision].coarse(self.learned.traits.fp32):
            return None
        answer = self.reference.answer_reduced(kind, *asked)
        return answer.parts(self.written) if answer is not None and self._fits(answer, shapes) else None

    def _fits(self, answer: Answer, shapes: list[torch.Size]) -> bool:
        """Whether it has outputs of the shapes that are compared."""
        return [tensor.shape for tensor in answer.outputs] == shapes[: len(answer.outputs)]

    def _limited(self, same: torch.Tensor, oracle: torch.Tensor, found: Distances) -> Target:
        """What is allowed is a multiple of the reference's own error under the policy's switches on this very content
        (`rounded`: the same without a GPU), and beyond it what is a small part of the next coarser format's."""
        if found.integer:
            return Target(same, same, Allowed(0.0, 0.0), Errors(0.0, 0.0), None, found.other)
        error = found.own.errors()
        low: Errors | None = None
        for coarse in found.coarse:
            low = joined(coarse.errors(), low)
        bound = (error if found.rounded is None else joined(error, found.rounded.errors()), low)
        if self._halves:  # it may err like the reference in 16 bits
            bound = (joined(error, low), None)
        traits, reach = self.learned.traits, found.reach()
        order = 1.0 if traits.multiplies else ORDER
        limit = allowed(
            *bound, same.dtype, traits.length, same.numel(),
            outlier=reach.largest, order=order, one_sign=reach.rms if self.sums else 0.0,
        )  # fmt: skip
        if found.cut is not None:  # no more than that: on content of both signs such an error is near half precision's
            limit = limit.widened(found.cut.errors(), CUT_ROOM)
        return Target(same, oracle, limit, error, low)


def layout_of(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the same type, shape and strides without content."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equality of content; a NaN equals itself."""
    if left.shape != right.shape:
        return False
    return all(_same_part(*part) for part in in_parts(left, right))


def _same_part(left: torch.Tensor, right: torch.Tensor) -> bool:
    if torch.equal(left, right):
        return True
    if not (left.is_floating_point() or left.is_complex()):
        return False
    return bool(((left == right) | (left.isnan() & right.isnan())).all())


def all_finite(tensor: torch.Tensor) -> bool:
    """Whether every element is."""
    return all(bool(part.isfinite().all()) for (part,) in in_parts(tensor))


def _alike(one: Answer, other: Answer) -> bool:
    return all(
        [t.shape for t in mine] == [t.shape for t in theirs]
        for mine, theirs in ((one.outputs, other.outputs), (one.inputs, other.inputs))
    )


def _differences(one: Answer, other: Answer) -> list[float]:
    """RMS difference of two runs for each output, relative to its spread; infinite where it has none."""
    pairs = zip(one.outputs, other.outputs, strict=False)
    return [0.0 if same_bits(a, b) else _apart(a, b) for a, b in pairs]


def _apart(one: torch.Tensor, other: torch.Tensor) -> float:
    found = errors(one, other).rms if one.shape == other.shape else math.inf
    return found if math.isfinite(found) else math.inf


def holds(target: Target, value: torch.Tensor) -> bool:
    """Whether `value` is right."""
    if target.integer:
        return value.dtype == target.same.dtype and bool(target.agrees(value).all())
    return target.allowed.holds(target.errors(value))
