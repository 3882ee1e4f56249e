"""Which gradients a reference is asked for, by their numbers among what a call returns, and its cotangents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

from judge.bench.exchange.nested import packed
from judge.bench.foreign import random_state
from judge.bench.foreign.gradients import Calls, Layout, differentiable
from judge.bench.judging import parameters as states
from judge.bench.judging.completion import Ended
from judge.values import Gradients, Policy, Verdict

MIXED = 0x5DEECE66D  # cotangents are drawn from another seed than inputs
Layouts = list[Layout | None]
Part = TypeVar("Part")


_NOTHING = {  # why there is nothing to derive by
    Gradients.INPUTS: "no input is a floating tensor",
    Gradients.PARAMETERS: "the reference has no trained parameter",
    Gradients.ALL: "no input is a floating tensor, and the reference has no trained parameter",
}


def _refused(why: str) -> Ended:
    return Ended(
        Verdict.REFUSED_PROBLEM, "problem", "problem.no_gradient", f"the problem asks for gradients, but {why}"
    )


class Asked:
    """Of one reference. `parameters`: names of those whose gradients are asked for, in the model's order."""

    def __init__(self, policy: Policy, model: object) -> None:
        self.policy = policy
        own = states.named(model)
        trained = [name for name in states.parameter_names(model) if own[name].requires_grad]
        self.parameters = trained if policy.gradients.of_parameters else []
        self.outputs: int | None = None  # tensors that forward returns
        self.inputs: list[int] = []  # numbers of the input tensors that have gradients
        self._layouts: dict[object, Layouts] = {}

    def calls(self, model: object) -> Calls:
        """How to call the reference, or a copy of it."""
        calls, own = Calls(self.policy), states.named(model)
        calls.prepare(model, [own[name] for name in self.parameters])
        return calls

    def cotangents(self, inputs: list[Any], device: str, seed: int, layouts: Callable[[], Layouts]) -> list[Any]:
        """Random numbers for each output that has a gradient, None for the others. Raises Ended where none has.

        `layouts` runs forward; it is asked once for inputs of the same shapes.
        """
        template, tensors = packed(inputs)
        key = str(template), tuple((tensor.shape, tensor.dtype) for tensor in tensors)
        found = self._layouts.get(key)
        if found is None:
            found = self._layouts[key] = layouts()
        self.inputs = [number for number, one in enumerate(tensors) if differentiable(one)]
        if not self.policy.gradients.of_inputs:
            self.inputs = []
        self.outputs = len(found)
        if not self.inputs and not self.parameters:
            raise _refused(_NOTHING[self.policy.gradients])
        if not any(found):
            raise _refused("no output of the reference depends on what gradients are asked for")
        random_state.reset(seed ^ MIXED)
        return [None if one is None else torch.randn(one.shape, dtype=one.dtype, device=device) for one in found]

    def title(self, number: int) -> str:
        """What output `number` of a call is, for messages."""
        if self.outputs is None or number < self.outputs:
            return f"output {number}"
        titles = [f"the gradient of input {one}" for one in self.inputs]
        titles += [f"the gradient of {name}" for name in self.parameters]
        place = number - self.outputs
        return titles[place] if place < len(titles) else f"output {number}"

    def forward_part(self, outputs: list[Part]) -> list[Part]:
        """Of one thing for each output of a call, those of the outputs of forward."""
        return outputs if self.outputs is None else outputs[: self.outputs]

    def among(self, outputs: int) -> int:
        """How many of the `outputs` of a call are gradients."""
        return 0 if self.outputs is None else max(0, outputs - self.outputs)

    def arguments(self, args: list[Any]) -> list[Any]:
        """Of the arguments of a call, those of forward."""
        return args if self.policy.gradients is Gradients.NONE else args[:-1]

    def shared(self, args: list[Any], outputs: int) -> frozenset[tuple[int, int]]:
        """Pairs (output, input) that may share memory whatever the reference does: a gradient may be a cotangent."""
        if self.outputs is None:
            return frozenset()
        last = len(packed(args)[1])
        first = len(packed(args[:-1])[1])
        return frozenset((one, other) for one in range(self.outputs, outputs) for other in range(first, last))
