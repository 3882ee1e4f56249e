"""Runs the reference of a problem again and again from the same state, and compares what comes out."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from judge.bench.admission.graph import tensors_in
from judge.bench.device.gpu import settle
from judge.bench.foreign.whereabouts import FORWARD, SILENT, Whereabouts
from judge.bench.judging.parameters import State, named, redraw, redrawn, snapshot
from judge.bench.judging.precision import Gathered, errors

SEED = 20_001


class Reference:
    """A model with its inputs' factory. Every run starts from the parameters, buffers and RNG state of the first.

    `draw` makes the arguments of one forward from a seed, on the device.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        draw: Callable[[int], list[Any]],
        device: str,
        whereabouts: Whereabouts = SILENT,
    ) -> None:
        self.model = model
        self.whereabouts = whereabouts
        self.draw = draw
        self.device = device
        self.last_s = 0.0
        self.first = snapshot(model)

    def redrawn(self) -> State:
        """Other content for every parameter and buffer, as candidates are asked with."""
        return redrawn(self.model, self.first, redraw, set())

    def run(self, inputs: Sequence[Any], seed: int = SEED, state: State | None = None) -> Any:
        """`forward` on copies of `inputs`, gradients off, RNG at `seed`. Whatever it raises comes through.

        `state` holds parameters and buffers by name; the first ones are put back afterwards.
        """
        arguments = pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, list(inputs))
        if state is not None:
            self.restore(state)
        torch.manual_seed(seed)
        try:
            with self.whereabouts.inside(FORWARD), torch.no_grad():
                started = time.perf_counter()
                output = self.model(*arguments)
                settle(self.device)
                self.last_s = time.perf_counter() - started
            return pytree.tree_map(lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x, output)
        finally:
            self.restore()

    def restore(self, state: State | None = None) -> None:
        """Put parameters and buffers to `state`, else back to what they were at the start."""
        content = self.first if state is None else state
        with torch.no_grad():
            for name, value in named(self.model).items():
                if name in content and value.shape == content[name].shape:
                    value.copy_(content[name])

    def double(self) -> Reference:
        """The same reference in fp64."""
        return Reference(copy.deepcopy(self.model).double(), self.draw, self.device, self.whereabouts)


def listed(made: Any) -> list[Any]:
    """What get_inputs() returned as a list of arguments; a tensor alone is one argument."""
    return [made] if isinstance(made, torch.Tensor) else list(made)


def doubled(inputs: Sequence[Any]) -> list[Any]:
    """Inputs with floating tensors in fp64."""
    return pytree.tree_map(  # type: ignore[no-any-return]
        lambda x: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x, list(inputs)
    )


def leaves(output: Any) -> list[torch.Tensor]:
    """Every output tensor in its own type; complex ones as pairs of reals."""
    return [torch.view_as_real(one.resolve_conj()) if one.is_complex() else one for one in tensors_in(output)]


def spread(leaf: torch.Tensor) -> float:
    """Standard deviation of the finite values, computed in fp64."""
    found = Gathered()
    found.add(leaf, leaf)
    return found.spread()


def relative(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> float:
    """Largest RMS difference over all leaves, each in units of its spread (a constant leaf: of its size); infinity when
    shapes or the places of NaN and Inf differ."""
    if len(one) != len(other) or any(left.shape != right.shape for left, right in zip(one, other, strict=True)):
        return math.inf
    found = [errors(right, left).rms for left, right in zip(one, other, strict=True)]
    return max((rms if math.isfinite(rms) else math.inf for rms in found), default=0.0)
