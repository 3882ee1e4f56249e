"""The reference inside the referee: inputs, parameters, expected outputs and how exact one may ask to be."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from judge.bench.families import redraw, reshaped
from judge.bench.loading import LoadedProblem
from judge.bench.nested import TensorMeta, decode, encode
from judge.bench.precision import Allowed, Errors, allowed, errors, longest_reduction, rounded
from judge.bench.whereabouts import FORWARD

State = dict[str, torch.Tensor]
# What a reference raises on content or types it was not made for.
REFUSALS = (
    RuntimeError, TypeError, ValueError, AttributeError, AssertionError, LookupError, ArithmeticError,
)  # fmt: skip


@dataclass(frozen=True)
class Expected:
    """What a right answer looks like for one set of inputs and parameters."""

    template: Any
    metas: list[TensorMeta]
    oracle: list[torch.Tensor]  # fp64 where the reference can, else its own type
    same: list[torch.Tensor]  # the honest same-dtype reference
    allowed: list[Allowed]
    reference_errors: list[Errors]
    coarse_errors: list[Errors | None]
    inputs_after: list[torch.Tensor]
    aliases: bool
    finite: bool
    fp64: bool


class Reference:
    """Runs the problem's own model. `seed` arguments are drawn by the referee from the system's entropy."""

    def __init__(self, loaded: LoadedProblem, device: str) -> None:
        self.loaded = loaded
        self.device = device
        self.whereabouts = loaded.whereabouts
        self.construct_seed = secrets.randbits(31)
        torch.manual_seed(self.construct_seed)
        self.init = loaded.get_init_inputs()
        with torch.no_grad():
            self.model = loaded.Model(*self.init)
        if isinstance(self.model, torch.nn.Module):
            self.model = self.model.to(device)
        self.first = self.state()
        self._length: int | None = None
        self._fp64_works = True

    def state(self) -> State:
        """Copies of parameters and buffers, in order, by qualified name."""
        if not isinstance(self.model, torch.nn.Module):
            return {}
        named = [*self.model.named_parameters(), *self.model.named_buffers()]
        return {name: tensor.detach().clone() for name, tensor in named}

    @property
    def parameter_names(self) -> list[str]:
        return [name for name, _ in self.model.named_parameters()] if isinstance(self.model, torch.nn.Module) else []

    def redrawn(self) -> State:
        return {name: redraw(name, tensor) for name, tensor in self.first.items()}

    def inputs(self, family: str, seed: int) -> list[Any]:
        """Fresh inputs made on the device where the problem's factory lets us."""
        torch.manual_seed(seed)
        with torch.device(self.device), torch.no_grad():
            made = self.loaded.get_inputs()
        made = [made] if isinstance(made, torch.Tensor) else list(made)
        return list(reshaped(family, self._moved(made)))

    def _moved(self, value: Any) -> Any:
        tensors: list[torch.Tensor] = []
        template = encode(value, collect(tensors), "get_inputs()")
        return decode(template, lambda i: tensors[i].detach().to(self.device), self.device)

    def load(self, state: State, model: Any = None) -> None:
        model = self.model if model is None else model
        if isinstance(model, torch.nn.Module):
            with torch.no_grad():
                for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
                    tensor.copy_(state[name])

    def run(self, inputs: list[Any], state: State, seed: int) -> Any:
        """The honest same-dtype answer. Inputs are used as they are: clone them before if they matter."""
        self.load(state)
        torch.manual_seed(seed)
        with self.whereabouts.inside(FORWARD), torch.no_grad():
            return self.model(*inputs)

    def _run_double(self, inputs: list[Any], state: State, seed: int) -> Any:
        model = copy.deepcopy(self.model)
        if isinstance(model, torch.nn.Module):
            model = model.double()
        self.load(state, model)
        torch.manual_seed(seed)
        wide = as_double(inputs)
        with self.whereabouts.inside(FORWARD), torch.no_grad():
            return model(*wide)

    def expect(self, inputs: list[Any], state: State, seed: int) -> Expected:
        """Oracle, honest answer and allowed errors for `inputs`; the inputs themselves are left alone."""
        used = cloned(inputs)
        out = self.run(used, state, seed)
        same: list[torch.Tensor] = []
        template = encode(out, collect(same), "the reference's output")
        aliases = shares(out, used)
        same = [tensor.detach().clone() for tensor in same]
        if self._length is None:
            self._length = longest_reduction(lambda: self.run(cloned(inputs), state, seed))
            self._fp64_works = not self._random(inputs, state, seed, same)
        oracle = self._double_outputs(inputs, state, seed, same)
        found = [errors(value, exact) for value, exact in zip(same, oracle, strict=True)]
        coarse = self._coarse_errors(inputs, state, seed, oracle)
        limits = [
            allowed(e, low, tensor.dtype, self._length) for e, low, tensor in zip(found, coarse, same, strict=True)
        ]
        floating = [tensor for tensor in oracle if tensor.is_floating_point()]
        after: list[torch.Tensor] = []
        encode(used, collect(after))
        return Expected(
            template=template,
            metas=[TensorMeta.of(tensor) for tensor in same],
            oracle=oracle,
            same=same,
            allowed=limits,
            reference_errors=found,
            coarse_errors=coarse,
            inputs_after=after,
            aliases=aliases,
            finite=all(bool(tensor.isfinite().all()) for tensor in floating) and all(e.finite for e in found),
            fp64=self._fp64_works,
        )

    def _random(self, inputs: list[Any], state: State, seed: int, same: list[torch.Tensor]) -> bool:
        """Whether the output depends on the RNG (dropout): then fp64 would draw other numbers and be no oracle."""
        outs = self._try(lambda: self.run(cloned(inputs), state, seed + 1))
        pairs = zip(outs or [], same, strict=outs is not None)
        return outs is None or any(not torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs)

    def _double_outputs(
        self, inputs: list[Any], state: State, seed: int, same: list[torch.Tensor]
    ) -> list[torch.Tensor]:
        """Outputs of the reference in fp64; its own type where it cannot (a hard-coded dtype, a random mask)."""
        if not self._fp64_works:
            return same
        outs = self._try(lambda: self._run_double(inputs, state, seed))
        if outs is None or [t.shape for t in outs] != [t.shape for t in same]:
            self._fp64_works = False
            return same
        return [out if s.is_floating_point() else s for out, s in zip(outs, same, strict=True)]

    def _coarse_errors(
        self, inputs: list[Any], state: State, seed: int, oracle: list[torch.Tensor]
    ) -> list[Errors | None]:
        """Errors of the reference with inputs and parameters rounded to TF32; None for problems that are not fp32."""
        if not all(tensor.dtype in (torch.float64, torch.float32) for tensor in oracle if tensor.is_floating_point()):
            return [None] * len(oracle)
        coarse_state = {name: rounded(tensor, "tf32") for name, tensor in state.items()}
        run = self._run_double if self._fp64_works else self.run
        outs = self._try(lambda: run(rounded(cloned(inputs), "tf32"), coarse_state, seed))
        if outs is None or [t.shape for t in outs] != [t.shape for t in oracle]:
            return [None] * len(oracle)
        return [
            errors(out, exact) if exact.is_floating_point() else None for out, exact in zip(outs, oracle, strict=True)
        ]

    @staticmethod
    def _try(run: Callable[[], Any]) -> list[torch.Tensor] | None:
        outs: list[torch.Tensor] = []
        try:
            encode(run(), collect(outs))
        except REFUSALS:
            return None
        return outs


def collect(into: list[torch.Tensor]) -> Callable[[torch.Tensor], int]:
    """A `put` for encode that gathers tensors in order."""

    def put(tensor: torch.Tensor) -> int:
        into.append(tensor)
        return len(into) - 1

    return put


def cloned(value: Any) -> Any:
    """A deep copy of nested values; tensors keep their layout."""
    tensors: list[torch.Tensor] = []
    template = encode(value, collect(tensors))
    device = str(tensors[0].device) if tensors else "cpu"
    return decode(template, lambda i: tensors[i].detach().clone(), device)


def as_double(value: Any) -> Any:
    """A deep copy with floating tensors in fp64."""
    tensors: list[torch.Tensor] = []
    template = encode(value, collect(tensors))
    device = str(tensors[0].device) if tensors else "cpu"

    def get(number: int) -> torch.Tensor:
        tensor = tensors[number].detach()
        return tensor.double() if tensor.is_floating_point() else tensor.clone()

    return decode(template, get, device)


def shares(out: Any, inputs: Any) -> bool:
    """Whether an output lies in an input's memory."""
    before: list[torch.Tensor] = []
    after: list[torch.Tensor] = []
    encode(inputs, collect(before))
    encode(out, collect(after))
    storages = {t.untyped_storage().data_ptr() for t in before if t.numel()}
    return any(t.untyped_storage().data_ptr() in storages for t in after if t.numel())
