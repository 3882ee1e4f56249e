"""Candidates that compute nothing: asked like any other, each must be told from a right answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from judge.bench.admission.flops import tensors_in
from judge.bench.judging.expected import Expected, holds
from judge.values import Flaw

_REMEMBERED = "what the first call returned"
_MEAN = "the mean of earlier answers"


class NullCandidates:
    """Zeros, a constant, an input as it is, the first answer again, the mean of earlier ones."""

    def __init__(self) -> None:
        self.questions = 0
        self._alive: set[str] | None = None
        self._first: list[torch.Tensor] = []
        self._sums: list[torch.Tensor] = []
        self._all_zero = True

    @property
    def passing(self) -> list[str]:
        """Names of those that have been right so far."""
        return sorted(self._alive or ())

    def meet(self, inputs: Sequence[Any], expected: Expected) -> None:
        """One question of the judge with the right answer; who errs beyond the allowed error is out."""
        if not self._first:
            self._first = expected.oracle
            self._sums = [torch.zeros_like(leaf) for leaf in expected.oracle]
        answers = self._answers(inputs, expected.oracle)
        right = {name for name, values in answers.items() if _right(values, expected)}
        self._alive = right if self._alive is None else self._alive & right
        self._all_zero = self._all_zero and not any(bool(leaf.any()) for leaf in expected.oracle)
        self.questions += 1
        for total, leaf in zip(self._sums, expected.oracle, strict=True):
            if total.shape == leaf.shape:
                total += leaf

    def flaw(self) -> Flaw | None:
        """What it means that one of them passed every question; None when all have failed."""
        alive = self._alive or set()
        if self.questions < 2 or not alive:
            return None
        if "zeros" in alive:
            return _flaw("problem.constant" if self._all_zero else "problem.near_zero", "zeros")
        for name, code in (("one constant", "problem.constant"), (_REMEMBERED, "problem.input_insensitive")):
            if name in alive:
                return _flaw(code, name)
        name = min(alive)
        return _flaw("problem.input_insensitive" if name == _MEAN else "problem.identity", name)

    def _answers(self, inputs: Sequence[Any], oracle: list[torch.Tensor]) -> dict[str, list[torch.Tensor]]:
        found = {
            "zeros": [torch.zeros_like(leaf) for leaf in oracle],
            "one constant": [_filled(leaf, first) for leaf, first in zip(oracle, self._first, strict=True)],
        }
        if all(leaf.shape == first.shape for leaf, first in zip(oracle, self._first, strict=True)):
            found[_REMEMBERED] = self._first
            found[_MEAN] = [
                total / self.questions if self.questions and total.dtype.is_floating_point else first
                for total, first in zip(self._sums, self._first, strict=True)
            ]
        if len(oracle) == 1:
            for number, tensor in enumerate(tensors_in(inputs)):
                if tensor.shape == oracle[0].shape and tensor.is_complex() == oracle[0].is_complex():
                    found[f"its input {number} unchanged"] = [tensor.to(oracle[0].dtype)]
        return found


def _filled(leaf: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    """The mean of the first answer everywhere; of integers and booleans, their first element."""
    if not first.numel():
        return leaf
    if first.is_floating_point():
        finite = first[first.isfinite()]
        return torch.full_like(leaf, float(finite.mean()) if finite.numel() else 0.0)
    return first.reshape(-1)[0].expand(leaf.shape).to(leaf.dtype)


def _right(values: list[torch.Tensor], expected: Expected) -> bool:
    """None of them writes to an input or a buffer: where the reference does, they are wrong."""
    if expected.in_place or expected.state:
        return False
    return all(holds(target, value) for target, value in zip(expected.outputs, values, strict=True))


def _flaw(code: str, name: str) -> Flaw:
    return Flaw(
        code,
        f"A candidate that returns {name} would pass: the output carries no computation.",
        "Let forward compute something that its inputs and parameters decide.",
    )
