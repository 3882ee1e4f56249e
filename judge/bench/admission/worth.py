"""Is the problem worth solving? Parts examined in turn; candidates that compute nothing must be told apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import torch

from judge.bench.admission.degeneracy import (
    Draw,
    Trial,
    blind_inputs,
    dead_flaw,
    draws_of,
    fixed_inputs,
    output_flaw,
    parameter_flaw,
    rounding_flaw,
    used_parameters,
    varied,
)
from judge.bench.admission.every_question import questions
from judge.bench.admission.graph import Trace, tensors_in
from judge.bench.admission.op_algebra import algebra_flaws
from judge.bench.admission.reference_run import Reference
from judge.bench.foreign.loading import LoadedProblem
from judge.bench.foreign.whereabouts import FORWARD
from judge.bench.judging.expected import Expected, holds
from judge.values import Flaw, Policy

_REMEMBERED = "what the first call returned"
_MEAN = "the mean of earlier answers"

Answer = Callable[[], list[torch.Tensor]]


class NullCandidates:
    """Zeros, a constant, an input as it is, the first answer again, the mean of earlier ones.

    Their answers are made one at a time, and none for who is out: outputs may fill a good part of a GPU.
    """

    def __init__(self) -> None:
        self.questions = 0
        self._alive: set[str] | None = None
        self._first: list[torch.Tensor] = []
        self._constants: list[torch.Tensor] = []
        self._sums: list[torch.Tensor] = []  # empty once the mean is out
        self._all_zero = True

    @property
    def passing(self) -> list[str]:
        """Names of those that have been right so far."""
        return sorted(self._alive or ())

    def meet(self, inputs: Sequence[Any], expected: Expected) -> None:
        """One question of the judge with the right answer; who errs beyond the allowed error is out."""
        oracle = expected.oracle
        if not self.questions:
            self._first = self._sums = oracle
            self._constants = [_constant(leaf) for leaf in oracle]
        self._alive = {
            name
            for name, answer in self._answers(inputs, oracle)
            if (self._alive is None or name in self._alive) and _right(answer(), expected)
        }
        self._all_zero = self._all_zero and not any(bool(leaf.any()) for leaf in oracle)
        if _MEAN not in self._alive:
            self._sums = []
        elif self.questions:
            self._sums = [total + leaf for total, leaf in zip(self._sums, oracle, strict=True)]
        self.questions += 1

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

    def _answers(self, inputs: Sequence[Any], oracle: list[torch.Tensor]) -> Iterator[tuple[str, Answer]]:
        yield "zeros", lambda: [leaf.new_zeros(()).expand(leaf.shape) for leaf in oracle]
        yield (
            "one constant",
            lambda: [value.expand(leaf.shape) for value, leaf in zip(self._constants, oracle, strict=True)],
        )
        if all(leaf.shape == first.shape for leaf, first in zip(oracle, self._first, strict=True)):
            yield _REMEMBERED, lambda: self._first
            yield _MEAN, self._means
        if len(oracle) == 1:
            for number, tensor in enumerate(tensors_in(inputs)):
                if tensor.shape == oracle[0].shape and tensor.is_complex() == oracle[0].is_complex():
                    yield f"its input {number} unchanged", partial(_cast, tensor, oracle[0].dtype)

    def _means(self) -> list[torch.Tensor]:
        return [
            total / self.questions if self.questions and total.dtype.is_floating_point else first
            for total, first in zip(self._sums, self._first, strict=True)
        ]


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> list[torch.Tensor]:
    return [tensor.to(dtype)]


def _constant(leaf: torch.Tensor) -> torch.Tensor:
    """The mean of an answer; of integers and booleans, their first element."""
    if not leaf.numel():
        return leaf.new_zeros(())
    if leaf.is_floating_point():
        mean = leaf.mean()
        return mean if bool(mean.isfinite()) else leaf[leaf.isfinite()].mean().nan_to_num()
    return leaf.reshape(-1)[0]


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


QUICK_S = 0.25  # only a forward below this is run dozens of times
BUDGET_S = 40.0  # for everything in this module; the limit of a preflight is 120 s
DEAD_S = 5.0

MAY_LACK_MEMORY = ("worth", "algebra")
Part = tuple[str, Callable[[], list[Flaw]]]


class Worth:
    """One problem's reference with its first draw and its traced operators."""

    def __init__(
        self,
        loaded: LoadedProblem,
        reference: Reference,
        first: Draw,
        traced: Trace,
        policy: Policy,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`clock`: in seconds; it stands still where nobody's time is to count."""
        self.clock = clock
        self.loaded = loaded
        self.reference = reference
        self.first = first
        self.traced = traced
        self.policy = policy
        self.stop = clock() + BUDGET_S

    def parts(self, *, shapes_known: bool) -> Iterator[Part]:
        """Stages "worth", "algebra" and "null". The graph is examined where its shapes were not known before.

        The judge asks every candidate what "null" asks: without memory for that, nothing can be judged. The other two
        hold several answers at a time, which the judge does not.
        """
        yield "worth", self.output
        yield "algebra", lambda: ([] if shapes_known else algebra_flaws(self.traced, self.loaded)) + self.dead()
        yield "null", self.null

    @property
    def quick(self) -> bool:
        return self.reference.last_s < QUICK_S

    def _more(self) -> bool:
        return self.clock() < self.stop

    def output(self) -> list[Flaw]:
        """Does it depend on inputs, parameters and seed, and is it more than rounding noise?"""
        draws = draws_of(self.reference, self.first)
        rounding = rounding_flaw(self.reference, self.first)
        vanishes = rounding is not None and rounding.code == "problem.near_zero"
        found = [rounding] if vanishes else [output_flaw(draws), rounding]
        if not any(found):
            used = used_parameters(self.traced.graph)
            found.append(parameter_flaw(self.reference, self.first, used, each=self.quick, more=self._more))
            found.append(blind_inputs(self.reference, self.first) if self.quick else None)
        found.append(fixed_inputs(self.reference, self.first))
        return [flaw for flaw in found if flaw is not None]

    def dead(self) -> list[Flaw]:
        """An operator whose mean would do as well, on these inputs, on larger ones and with other parameters."""
        if not self.quick or self.traced.program is None:
            return []
        first, other = self.reference.first, self.reference.redrawn()
        larger = [_ten_times(item) for item in self.first.inputs]
        trials = [Trial(self.first.inputs, first), Trial(larger, first), Trial(varied(self.first.inputs, 1), other)]
        budget_s = min(DEAD_S, self.stop - self.clock())
        with (
            suppress(RuntimeError, ValueError, TypeError, IndexError),  # the exported form may refuse other values
            self.reference.whereabouts.inside(FORWARD),
        ):
            flaw = dead_flaw(self.traced.program, trials, line=self.traced.line, budget_s=budget_s, clock=self.clock)
            return [flaw] if flaw else []
        return []

    def null(self) -> list[Flaw]:
        """Candidates that compute nothing, asked what the referee would ask a real one."""
        candidates = NullCandidates()
        for question in questions(self.loaded, self.reference.device, self.policy, few=not self.quick):
            candidates.meet(question.inputs, question.expected)
            if not self._more() or (candidates.questions > 1 and not candidates.passing):
                break
        flaw = candidates.flaw()
        return [flaw] if flaw else []


def _ten_times(item: Any) -> Any:
    return item * 10 if isinstance(item, torch.Tensor) and item.is_floating_point() else item
