"""Integers that rounding decides: an element that lies on the edge of a step may fall to either side.

A quantiser that divides by a scale and one that multiplies by its inverse are both right, and differ in one of ten
million elements. The reference is asked again with inputs and parameters that are off by what an honest kernel may
lose: an element that it then answers as the candidate does was decided by rounding.
"""

from __future__ import annotations

import secrets
from typing import Any

import torch

from judge.bench.exchange.nested import mapped
from judge.bench.judging.asker import Asker
from judge.bench.judging.asking import Question
from judge.bench.judging.families import TIES
from judge.bench.judging.precision import FP32_ROUNDOFF, ROUNDED_SHARE, ROUNDOFF
from judge.bench.judging.reference import Answer
from judge.bench.judging.state import State
from judge.values import Finding

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
