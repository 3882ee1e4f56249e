"""Why an output is wrong, where that can be told: unsteady, stale parameters, right only in a coarser format."""

from __future__ import annotations

from dataclasses import replace

import torch

from judge.bench.exchange.contact import SubjectFailed
from judge.bench.exchange.nested import cloned, mapped
from judge.bench.judging.asker import Asker
from judge.bench.judging.asking import Question
from judge.bench.judging.comparison import STAGE, Fault, check_structure, fault_of
from judge.bench.judging.endings import Ended, lower_precision
from judge.bench.judging.expected import Target, expect, holds, same_bits
from judge.bench.judging.families import CENTRED
from judge.bench.judging.precision import CUT, Errors, coarse_kind, errors, rounded
from judge.bench.judging.reference import REFUSALS
from judge.bench.judging.state import State
from judge.bench.judging.steadiness import check_steady
from judge.values import Precision, Verdict

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
    found = errors(value, target.oracle)
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
        probe = rounds.question(CENTRED, question.state)
    except REFUSALS:
        return question
    return probe if probe.expected.finite else question


def _kinds(target: Target, policy: Precision, *, cut: bool) -> tuple[str, ...]:
    """`cut`: also TF32 as tensor cores make it of parameters that nobody could round before."""
    if target.same.dtype == torch.float64:
        return ("float32",)
    if policy is not Precision.STRICT:
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
