"""One call of a model as its policy asks for it: forward alone, or forward and then backward with given cotangents.

The last argument of a call with gradients is ours: {"cotangents": [tensor or None for each tensor that forward
returns], "between": bool}. A call without cotangents is forward alone, with the graph kept for backward. With "between"
another forward, on the same arguments in another order, comes before backward, as in a training loop with two batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from judge.bench.exchange.nested import NotCarried, bare, cloned, mapped, packed
from judge.values import Gradients, Policy

COTANGENTS, BETWEEN = "cotangents", "between"


class Layout(NamedTuple):
    """Of a cotangent."""

    shape: torch.Size
    dtype: torch.dtype


def start_autograd() -> None:
    """Let autograd start its threads, one for each GPU: it does so at the first backward of a process."""
    torch.zeros((), requires_grad=True).clone().backward()


def differentiable(tensor: torch.Tensor) -> bool:
    """Whether a tensor of its type can have a gradient."""
    return bool(tensor.is_floating_point() or tensor.is_complex())


def asked_for(cotangents: Sequence[torch.Tensor | None], *, between: bool = False) -> dict[str, Any]:
    """The last argument of a call with gradients."""
    return {COTANGENTS: list(cotangents), BETWEEN: between}


def turned(args: Sequence[Any]) -> list[Any]:
    """Arguments of the same shapes with other content: turned round along the first dimension, integers only where
    nothing else is there."""
    all_integers = not any(map(differentiable, packed(list(args))[1]))
    return [
        mapped(lambda one: one.flip(0) if one.dim() and (all_integers or differentiable(one)) else one, arg)
        for arg in args
    ]


def forward_alone(args: Sequence[Any]) -> list[Any]:
    """The arguments `args` of a call with gradients, for forward alone."""
    return [*args[:-1], asked_for([])]


class NoGradient(NotCarried):
    """What forward returned has no gradient, where the reference's has one."""


class Calls:
    """Calls models under `policy`. With gradients a call returns [outputs, gradients]: of inputs, then of parameters.

    `parameters`: the model's own tensors whose gradients are asked for. `accumulated`: a call has left something in
    the `grad` of an input or of such a parameter, which torch.autograd.grad does not.
    """

    def __init__(self, policy: Policy) -> None:
        self.gradients = policy.gradients
        self.parameters: list[torch.Tensor] = []
        self.accumulated = False

    def prepare(self, model: Any, parameters: Sequence[torch.Tensor]) -> None:
        """Ask for the gradients of `parameters` and of no other tensor of `model`. Nothing without gradients."""
        if self.gradients is Gradients.NONE:
            return
        if isinstance(model, torch.nn.Module):
            model.requires_grad_(False)
        self.parameters = [tensor.requires_grad_(True) for tensor in parameters]

    def __call__(self, model: Any, args: Sequence[Any]) -> Any:
        """Called where gradients are off. Whatever the model raises; NoGradient where its output has none."""
        if self.gradients is Gradients.NONE:
            return bare(model(*args))
        *given, asked = args
        with torch.enable_grad():
            leaves = [self._leaf_of(one) for one in given]
            out = model(*leaves)
            if not asked[COTANGENTS]:
                return bare(out)
            if asked[BETWEEN]:
                model(*(self._leaf_of(one) for one in turned(given)))
            found = self._gradients(out, self._wanted(leaves), asked[COTANGENTS])
        return [bare(out), found]

    def layouts(self, model: Any, args: Sequence[Any]) -> list[Layout | None]:
        """What cotangents the outputs of `model(*args)` take; None for those that have no gradient."""
        with torch.enable_grad():
            found = packed(model(*(self._leaf_of(one) for one in cloned(list(args)))), "the output")[1]
        return [Layout(one.shape, one.dtype) if one.requires_grad else None for one in found]

    def _leaf_of(self, value: Any) -> Any:
        """`value` (nested) in the same memory, as arguments of which gradients are asked, or not."""
        wanted = self.gradients.of_inputs
        return mapped(lambda tensor: tensor.detach().requires_grad_(wanted and differentiable(tensor)), value)

    def _wanted(self, leaves: list[Any]) -> list[torch.Tensor]:
        inputs = [tensor for tensor in packed(leaves)[1] if tensor.requires_grad]
        return [*inputs, *self.parameters]

    def _gradients(
        self, out: Any, wanted: list[torch.Tensor], cotangents: list[torch.Tensor | None]
    ) -> list[torch.Tensor]:
        """Gradients of `wanted`, zeros for what is not used. Of outputs that are not the reference's: no gradients."""
        tensors = packed(out, "the output")[1]
        if not _fits(tensors, cotangents):  # wrong by its structure, which the referee tells
            return [torch.empty_like(tensor) for tensor in wanted]
        asked = [number for number, cotangent in enumerate(cotangents) if cotangent is not None]
        lacking = [number for number in asked if not tensors[number].requires_grad]
        if lacking:
            raise NoGradient(
                f"output {lacking[0]} of forward has no gradient, although the problem asks for gradients; "
                "launch the kernels in a torch.autograd.Function with forward and backward"
            )
        outputs, given = [tensors[number] for number in asked], [cotangents[number] for number in asked]
        found = torch.autograd.grad(outputs, wanted, given, materialize_grads=True)
        self.accumulated = self.accumulated or any(tensor.grad is not None for tensor in wanted)
        return list(found)


def _fits(tensors: list[torch.Tensor], cotangents: list[torch.Tensor | None]) -> bool:
    return len(tensors) == len(cotangents) and all(
        cotangent is None or (tensor.shape == cotangent.shape and tensor.dtype == cotangent.dtype)
        for tensor, cotangent in zip(tensors, cotangents, strict=True)
    )
