"""Has the reference the gradients that are asked for? One forward and backward of it, as candidates are asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from judge.bench.admission.costs import Call
from judge.bench.admission.reference_run import SEED
from judge.bench.admission.stages import Note, Refused, problem_code
from judge.bench.foreign.loading import LoadedProblem
from judge.bench.judging.completion import Ended
from judge.bench.judging.reference import Answer, Reference
from judge.values import Policy

NO_GRADIENT = "problem.no_gradient"
IN_PLACE = "leaf Variable"  # in torch's message
DOING = "Model.forward, then backward,"


def with_gradients(loaded: LoadedProblem, policy: Policy, device: str, path: Path, note: Note) -> Call:
    """What one call of the reference is, with its arguments. Raises Refused."""
    try:
        with problem_code(DOING, path):
            reference, inputs, answer = _answered(loaded, policy, device)
    except Refused as refused:
        if IN_PLACE not in refused.message:
            raise
        text = "Gradients of inputs are asked for, but forward writes to an input."
        raise Refused(NO_GRADIENT, text, "Let forward work on a copy, or ask for no gradients of inputs.") from refused
    asked = reference.gradients
    first = len(answer.outputs) - asked.among(len(answer.outputs))
    titles = [asked.title(number) for number in range(first, len(answer.outputs))]
    bad = [title for title, one in zip(titles, answer.outputs[first:], strict=True) if not one.isfinite().any()]
    if bad:
        raise Refused(NO_GRADIENT, f"No element is finite of {', '.join(bad[:8])}.", "Change the inputs or the module.")
    note.detail = ", ".join(titles[:12]) + (f" and {len(titles) - 12} more" if len(titles) > 12 else "")
    zero = [title for title, one in zip(titles, answer.outputs[first:], strict=True) if not one.any()]
    if zero:
        note.warn(f"{note.detail}. Zero everywhere: {', '.join(zero[:8])}.")
    return reference.called_with, inputs


def _answered(loaded: LoadedProblem, policy: Policy, device: str) -> tuple[Reference, list[Any], Answer]:
    """One question to the reference and its answer. Raises Refused where there is no gradient, and what it raises."""
    reference = Reference(loaded, device, policy)
    try:
        inputs = reference.inputs("given", SEED)
    except Ended as ended:
        fix = "Return a floating tensor that depends on them differentiably, or ask for no such gradients."
        raise Refused(ended.reason, f"{ended.message[0].upper()}{ended.message[1:]}.", fix) from ended
    return reference, inputs, reference.answer(inputs, reference.first, SEED)
