"""Why an output is wrong, where that can be told: unsteady, stale parameters, a coarser format, an edge of rounding."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

import torch

from judge.bench.exchange.contact import SubjectFailed
from judge.bench.exchange.nested import TensorMeta, cloned, mapped
from judge.bench.judging.asking import Asker, Question
from judge.bench.judging.comparison import STAGE, Fault, check_structure, fault_of
from judge.bench.judging.completion import Ended, lower_precision
from judge.bench.judging.expected import Expected, Target, expect, holds, same_bits
from judge.bench.judging.families import CENTRED, TIES, strided
from judge.bench.judging.parameters import State
from judge.bench.judging.precision import (
    CUT,
    FP32_ROUNDOFF,
    ROUNDED_SHARE,
    ROUNDOFF,
    Errors,
    coarse_kind,
    errors,
    rounded,
    weighted_errors,
)
from judge.bench.judging.reference import REFUSALS, Answer, Reference
from judge.values import CaseRecord, Finding, Precision, Verdict

LAYOUT = "strided"
REFUSES = frozenset({"exception", "compile", "resources", "unsupported", "bounds"})  # how a guard can show
GUARDED = "raises an error for inputs that are not contiguous; with contiguous ones it is right"
UNSAFE = (
    "returns wrong numbers, without an error, for inputs that are not contiguous; "
    "take strides from the tensors or call .contiguous()"
)


def check_repeats(rounds: Asker, question: Question, values: list[torch.Tensor], times: int) -> None:
    """Ask the same question again `times` times. Raises Ended("run.unstable")."""
    for _ in range(times):
        reply, slots = rounds.ask(question)
        check_structure(reply, question.expected, STAGE)
        again = rounds.contact.take(slots.outs)
        for number, target in enumerate(question.expected.outputs):
            check_steady(question, number, target, values[number], again[number])


def check_steady(question: Question, number: int, target: Target, one: torch.Tensor, other: torch.Tensor) -> None:
    """Raise Ended when two answers to equal content are further apart than two right ones can be."""
    if same_bits(one, other):
        return
    if target.integer:
        text = f"{int((one != other).sum())} of {one.numel()} elements differ"
    else:
        apart = _apart(target, one, other)
        if apart is not None and apart <= 2.0:
            return
        text = "not finite in the same places" if apart is None else f"{apart:.3g} times the allowed error apart"
    raise Ended(
        Verdict.UNSTABLE,
        STAGE,
        "run.unstable",
        f"{question.expected.title(number)}, inputs {question.family!r}: two calls on equal inputs, parameters and "
        f"random state gave different answers ({text}); look for a race, for memory that is read before it is written, "
        "for atomics",
    )


def _apart(target: Target, one: torch.Tensor, other: torch.Tensor) -> float | None:
    """Difference of two answers as a multiple of the allowed error; None when they are not finite alike."""
    if not torch.equal(one.isfinite(), other.isfinite()):
        return None
    left, right = (torch.where(value.isfinite(), value, 0).to(target.oracle.dtype) for value in (one, other))
    oracle = torch.where(target.oracle.isfinite(), target.oracle, 0)
    found, limit = weighted_errors(left - right + oracle, oracle, target.weights), target.allowed
    ratios = [(found.rms, limit.rms), (found.largest, limit.largest)]
    return max(value / bound if bound else (0.0 if value == 0 else float("inf")) for value, bound in ratios)


def try_layout(rounds: Asker, question: Question, values: list[torch.Tensor]) -> None:
    """The same content, laid out so that nothing is contiguous. What a kernel makes of it is a label, not a verdict.

    A reference that refuses such inputs, or answers otherwise, is not asked.
    """
    if rounds.reference.lean:
        _record(rounds, "left out: the device does not hold the inputs in two layouts")
        return
    inputs = list(strided(question.inputs))
    expected = _relaid(question.expected, rounds.reference, inputs, question.state, question.seed)
    if expected is None:
        _record(rounds, "left out: the reference wants contiguous inputs")
        return
    other = replace(question, family=LAYOUT, inputs=inputs, expected=expected)
    try:
        reply, slots = rounds.ask(other)
    except SubjectFailed as failed:
        if failed.kind not in REFUSES:
            raise
        _label(rounds, *(("layout.unsafe", UNSAFE) if failed.kind == "bounds" else ("layout.guarded", GUARDED)))
        return
    rounds.check_bands(slots)
    if reply.stored:
        found = rounds.contact.take(slots.outs)
        if not any(fault_of(target, value) for target, value in zip(expected.outputs, found, strict=True)):
            _record(rounds, "")
            return
    check_repeats(rounds, question, values, min(1, rounds.repeats))  # or was it chance?
    _label(rounds, "layout.unsafe", UNSAFE)


def _relaid(expected: Expected, reference: Reference, inputs: list[Any], state: State, seed: int) -> Expected | None:
    """`expected` for the same content in another layout; None where the reference does not give the same then."""
    found = reference.attempt(lambda: reference.answer(inputs, state, seed))
    if found is None or found.template != expected.template or len(found.outputs) != len(expected.outputs):
        return None
    pairs = zip(expected.outputs, found.outputs, strict=True)
    if not all(target.same.shape == value.shape and holds(target, value) for target, value in pairs):
        return None
    return replace(expected, metas=[TensorMeta.of(tensor) for tensor in found.outputs], aliases=found.aliases)


def _label(rounds: Asker, code: str, label: str) -> None:
    text = f"made for contiguous inputs: {label}"
    rounds.findings.append(Finding(code, text))
    _record(rounds, text)


def _record(rounds: Asker, detail: str) -> None:
    rounds.records.append(CaseRecord(rounds.case, LAYOUT, ok=True, detail=detail[:400]))


NEAR = 4.0  # an error belongs to a format when it is at most this many times that format's own ...
SHRINKS = 4.0  # ... and this many times smaller once inputs hold nothing finer
BELOW_HALF = 2.0**-18  # scales inputs to where float16 has lost most of its digits and TF32 none
HALF_LOSES = 2.0**-11  # float16's relative error there is larger than this
TELLING_ELEMENTS = 32  # fewer may fit a coarser format by accident
DESTROYED = 0.1  # a format that leaves nothing of the answer explains nothing: zeros fit it too
_STORED_KINDS = {torch.float32: ("bfloat16", "float16"), torch.float64: ("float32",)}


def explain(rounds: Asker, question: Question, number: int, value: torch.Tensor, fault: Fault) -> None:
    """Raise the more telling Ended when there is one; return when the output is just wrong."""
    expected = question.expected
    if not expected.random:
        again = _asked(rounds, question, number, poison=True)  # what nobody writes is seen, whatever lay there before
        if again is not None:
            unwritten = fault_of(expected.outputs[number], again)
            if unwritten is not None and unwritten.reason == "value.partial":
                raise rounds.failed(question, number, unwritten)
            check_steady(question, number, expected.outputs[number], value, again)
    _check_stale(rounds, question, number, value)
    if fault.found is not None and not expected.random:
        _check_precision(rounds, question, number)


def _asked(rounds: Asker, question: Question, number: int, *, poison: bool = False) -> torch.Tensor | None:
    """Output `number` of another call; None when the candidate refuses this content or answers in another form."""
    try:
        reply, slots = rounds.ask(question, poison=poison)
        check_structure(reply, question.expected, STAGE)
    except SubjectFailed as failed:
        if failed.kind not in ("exception", "bounds", "unsupported"):
            raise
        return None
    except Ended:
        return None
    return rounds.contact.take(slots.outs)[number]


def _check_stale(rounds: Asker, question: Question, number: int, value: torch.Tensor) -> None:
    if question.previous is None:
        return
    old = question.previous
    answer = rounds.reference.attempt(lambda: rounds.reference.answer(question.inputs, old, question.seed))
    if answer is None:
        return
    target, stale = question.expected.outputs[number], answer.outputs[number]
    if holds(target, stale):  # the old parameters give the right answer, too: it tells nothing
        return
    fits = same_bits(value, stale) if target.integer else errors(value, stale).rms <= target.allowed.rms
    if fits:
        raise Ended(
            Verdict.STATE_VIOLATION,
            STAGE,
            "state.stale_params",
            "the answer belongs to parameters that have been replaced; derive nothing from them "
            "outside forward, or do it in prepare(), which runs after every change",
        )


def _check_precision(rounds: Asker, question: Question, number: int) -> None:
    """Raise Ended when the error is a coarser format's.

    Read on centred inputs, where the format shows most: on data far from zero its error can hide in honest rounding.
    """
    policy = rounds.reference.policy.precision
    if policy is Precision.HALF or coarse_kind(question.expected.outputs[number].same.dtype) is None:
        return
    probe = _centred(rounds, question)
    value = _asked(rounds, probe, number)
    if value is None or value.is_complex():
        return
    target = probe.expected.outputs[number]
    found = target.errors(value)
    if target.allowed.holds(found) or not found.finite:
        return
    stored = _stored_as(value, target, found)
    if stored:
        raise _lower(rounds, stored, found, target, None)
    for kind in _kinds(target, policy, cut=rounds.fit.seeded):
        near = _near(rounds, probe, number, kind, found)
        if near is not None:
            named = "tf32" if kind == CUT else kind
            finest = "float16" if named == "tf32" and _loses_small(rounds, probe, number, kind) else named
            raise _lower(rounds, finest, found, target, near)


def _centred(rounds: Asker, question: Question) -> Question:
    if question.family == CENTRED:
        return question
    try:
        probe = rounds.questions.question(CENTRED, question.state)
    except REFUSALS:
        return question
    return probe if probe.expected.finite else question


def _kinds(target: Target, policy: Precision, *, cut: bool) -> tuple[str, ...]:
    """`cut`: also TF32 as tensor cores make it of parameters that nobody could round before."""
    if target.same.dtype == torch.float64:
        return ("float32",)
    if policy is Precision.TF32:
        return ("bfloat16",)
    return ("tf32", CUT, "bfloat16") if cut else ("tf32", "bfloat16")


def _stored_as(value: torch.Tensor, target: Target, found: Errors) -> str:
    """The coarser format that every element fits although the right ones do not, if the error is its size."""
    if value.numel() < TELLING_ELEMENTS:
        return ""
    right = target.oracle.to(value.dtype)
    for kind in _STORED_KINDS.get(value.dtype, ()):
        near = rounded(right, kind)
        if same_bits(rounded(value, kind), value) and not same_bits(near, right):
            own = errors(near, target.oracle)
            coarse = target.coarse.rms if target.coarse is not None else 0.0
            if own.rms < DESTROYED and found.rms <= NEAR * (own.rms + 8 * coarse):  # bfloat16: three bits below TF32
                return kind
    return ""


def _near(rounds: Asker, probe: Question, number: int, kind: str, found: Errors) -> Errors | None:
    """The error once inputs and parameters hold nothing finer than `kind`; None when that does not explain it."""
    reference = rounds.reference
    learned = reference.learned
    coarse = reference.answer_at(kind, probe.inputs, probe.state, probe.seed, wide=learned is not None and learned.fp64)
    target = probe.expected.outputs[number]
    if coarse is None or found.rms > NEAR * errors(coarse.outputs[number], target.oracle).rms:
        return None
    state = _rounded_state(rounds, probe, kind)
    again = _posed(rounds, probe, rounded(cloned(probe.inputs), kind), state)
    value = _asked(rounds, again, number) if again is not None else None
    if again is None or value is None:
        return None
    oracle = again.expected.outputs[number].oracle
    stored = rounded(oracle.to(value.dtype), kind)
    near = min((errors(value, oracle), errors(value, stored)), key=lambda each: each.rms)
    return near if near.finite and near.rms <= found.rms / SHRINKS else None


def _rounded_state(rounds: Asker, probe: Question, kind: str) -> State:
    """The parameters at `kind`. A candidate that makes its own from a seed is believed to round them itself."""
    seed = probe.state.seed if rounds.fit.seeded else None
    return State(((name, rounded(tensor, kind)) for name, tensor in probe.state.items()), seed)


def _posed(rounds: Asker, probe: Question, inputs: list[object], state: State) -> Question | None:
    try:
        expected = expect(rounds.reference, inputs, state, probe.seed)
    except REFUSALS:
        return None
    return replace(probe, inputs=inputs, state=state, expected=expected)


def _loses_small(rounds: Asker, probe: Question, number: int, kind: str) -> bool:
    """Whether small inputs that TF32 (`kind`: rounded or cut) holds exactly are lost: float16 has as many bits, and a
    shorter range.
    """

    def small(tensor: torch.Tensor) -> torch.Tensor:
        return rounded(tensor, kind) * BELOW_HALF if tensor.is_floating_point() else tensor

    again = _posed(rounds, probe, mapped(small, probe.inputs), _rounded_state(rounds, probe, kind))
    value = _asked(rounds, again, number) if again is not None else None
    if again is None or value is None:
        return False
    target = again.expected.outputs[number]
    found = errors(value, target.oracle)
    coarse = target.coarse.rms if target.coarse is not None else 0.0
    return not found.finite or found.rms > max(HALF_LOSES, NEAR * NEAR * coarse, target.allowed.rms)


def _lower(rounds: Asker, kind: str, found: Errors, target: Target, near: Errors | None) -> Ended:
    switched = [name for name in rounds.contact.switched if "tf32" in name or "precision" in name]
    return lower_precision(
        kind, found.rms, target.allowed.rms, near=near.rms if near is not None else None, switched=switched
    )


CODE = "value.rounded"
TRIES = 24  # each puts an element on the other side of its step by a chance of nearly a half
UNITS = 16.0  # roundings: what each number is off by at most


def decided_by_rounding(rounds: Asker, question: Question, number: int, value: torch.Tensor) -> bool:
    """Whether every element of integer output `number` that differs lies on an edge. Notes it as a finding, once.

    Never where elements lie on edges by construction (the family of ties): there the reference's rule counts.
    """
    target = question.expected.outputs[number]
    if not target.integer or question.family == TIES or question.expected.random:
        return False
    wrong = ~target.agrees(value)
    count = int(wrong.sum())
    if count > ROUNDED_SHARE * value.numel():
        return False
    chance = torch.Generator(value.device).manual_seed(secrets.randbits(62))  # its own: a run resets the common one
    for _ in range(TRIES):
        answer = _nearby(rounds, question, chance)
        if answer is None or answer.outputs[number].shape != value.shape:
            return False
        wrong &= answer.outputs[number] != value
        if not bool(wrong.any()):
            _note(rounds, number, count, value.numel())
            return True
    return False


def _nearby(rounds: Asker, question: Question, chance: torch.Generator) -> Answer | None:
    """The reference's answer to content that is off by a few roundings; None where it refuses."""
    reference, wide = rounds.reference, question.expected.fp64
    inputs = mapped(lambda tensor: _shaken(tensor, chance, wide=wide), question.inputs)
    state = State(
        ((name, _shaken(tensor, chance, wide=wide)) for name, tensor in question.state.items()), question.state.seed
    )
    if wide:
        return reference.answer_in(torch.float64, inputs, state, question.seed)
    return reference.attempt(lambda: reference.answer(inputs, state, question.seed))


def _shaken(tensor: Any, chance: torch.Generator, *, wide: bool) -> Any:
    if not tensor.is_floating_point():
        return tensor
    unit = ROUNDOFF.get(tensor.dtype, FP32_ROUNDOFF)
    base = tensor.double() if wide else tensor
    drawn = torch.rand(base.shape, dtype=base.dtype, device=base.device, generator=chance)
    return base * (1 + UNITS * unit * (2 * drawn - 1))


def _note(rounds: Asker, number: int, count: int, elements: int) -> None:
    if any(finding.code == CODE for finding in rounds.findings):
        return
    text = f"output {number}: {count} of {elements} elements differ where rounding decides, and count as right"
    rounds.findings.append(Finding(CODE, text, {"output": number, "elements": count}))
