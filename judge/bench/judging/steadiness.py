"""Equal content asked again: the answer must stay, and another layout of the inputs should not change it."""

from __future__ import annotations

from dataclasses import replace

import torch

from judge.bench.exchange.contact import SubjectFailed
from judge.bench.judging.asker import Asker
from judge.bench.judging.asking import Question
from judge.bench.judging.comparison import STAGE, check_structure, fault_of
from judge.bench.judging.endings import Ended
from judge.bench.judging.expected import Target, relaid, same_bits
from judge.bench.judging.families import strided
from judge.bench.judging.precision import errors
from judge.values import CaseRecord, Finding, Verdict

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
    """Raise Ended when two answers to equal content differ by more than the allowed error."""
    if same_bits(one, other):
        return
    if target.integer:
        text = f"{int((one != other).sum())} of {one.numel()} elements differ"
    else:
        apart = _apart(target, one, other)
        if apart is not None and apart <= 1.0:
            return
        text = "not finite in the same places" if apart is None else f"{apart:.3g} times the allowed error apart"
    raise Ended(
        Verdict.UNSTABLE,
        STAGE,
        "run.unstable",
        f"output {number}, inputs {question.family!r}: two calls on equal inputs, parameters and random state gave "
        f"different answers ({text}); look for a race, for memory that is read before it is written, for atomics",
    )


def _apart(target: Target, one: torch.Tensor, other: torch.Tensor) -> float | None:
    """Difference of two answers as a multiple of the allowed error; None when they are not finite alike."""
    if not torch.equal(one.isfinite(), other.isfinite()):
        return None
    left, right = (torch.where(value.isfinite(), value, 0).to(target.oracle.dtype) for value in (one, other))
    oracle = torch.where(target.oracle.isfinite(), target.oracle, 0)
    found, limit = errors(left - right + oracle, oracle), target.allowed
    ratios = [(found.rms, limit.rms), (found.largest, limit.largest)]
    return max(value / bound if bound else (0.0 if value == 0 else float("inf")) for value, bound in ratios)


def try_layout(rounds: Asker, question: Question, values: list[torch.Tensor]) -> None:
    """The same content, laid out so that nothing is contiguous. What a kernel makes of it is a label, not a verdict.

    A reference that refuses such inputs, or answers otherwise, is not asked.
    """
    inputs = list(strided(question.inputs))
    expected = relaid(question.expected, rounds.reference, inputs, question.state, question.seed)
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
    if "structure" not in reply and reply.get("stored"):
        found = rounds.contact.take(slots.outs)
        if not any(fault_of(target, value) for target, value in zip(expected.outputs, found, strict=True)):
            _record(rounds, "")
            return
    check_repeats(rounds, question, values, min(1, rounds.repeats))  # or was it chance?
    _label(rounds, "layout.unsafe", UNSAFE)


def _label(rounds: Asker, code: str, words: str) -> None:
    text = f"made for contiguous inputs: {words}"
    rounds.findings.append(Finding(code, text))
    _record(rounds, text)


def _record(rounds: Asker, detail: str) -> None:
    rounds.records.append(CaseRecord(rounds.case, LAYOUT, ok=True, detail=detail[:400]))
