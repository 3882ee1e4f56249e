"""Is the problem worth solving? Its parts are examined in turn, each within what is left of the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import torch

from judge.bench.admission.dead_ops import Trial, dead_flaw
from judge.bench.admission.degeneracy import (
    Draw,
    blind_inputs,
    draws_of,
    fixed_inputs,
    output_flaw,
    rounding_flaw,
    varied,
)
from judge.bench.admission.graph_trace import Trace
from judge.bench.admission.null_candidates import NullCandidates
from judge.bench.admission.parameter_effects import parameter_flaw, used_parameters
from judge.bench.admission.reference_run import Reference
from judge.bench.foreign.loading import LoadedProblem
from judge.bench.foreign.whereabouts import FORWARD
from judge.bench.judging.questions import questions
from judge.values import Flaw, Policy

QUICK_S = 0.25  # only a forward below this is run dozens of times
BUDGET_S = 40.0  # for everything in this module; the limit of a preflight is 120 s
DEAD_S = 5.0

Part = tuple[str, Callable[[], list[Flaw]]]


class Worth:
    """One problem's reference with its first draw and its traced operators."""

    def __init__(self, loaded: LoadedProblem, reference: Reference, first: Draw, traced: Trace, policy: Policy) -> None:
        self.loaded = loaded
        self.reference = reference
        self.first = first
        self.traced = traced
        self.policy = policy
        self.stop = time.perf_counter() + BUDGET_S

    def parts(self, algebra: Callable[[Trace], list[Flaw]] | None) -> Iterator[Part]:
        """Stages "worth", "algebra" and "null". `algebra` examines the graph where its shapes were not known before."""
        yield "worth", self.output
        yield "algebra", lambda: (algebra(self.traced) if algebra else []) + self.dead()
        yield "null", self.null

    @property
    def quick(self) -> bool:
        return self.reference.last_s < QUICK_S

    def _more(self) -> bool:
        return time.perf_counter() < self.stop

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
        budget_s = min(DEAD_S, self.stop - time.perf_counter())
        with (
            suppress(RuntimeError, ValueError, TypeError, IndexError),  # the exported form may refuse other values
            self.reference.whereabouts.inside(FORWARD),
        ):
            flaw = dead_flaw(
                self.traced.program, trials, line=self.traced.line, budget_s=budget_s, clock=time.perf_counter
            )
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
