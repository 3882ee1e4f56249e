"""Does the output depend on what goes in? Finds outputs that are constant, near zero or blind to their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from judge.bench.admission.flops import tensors_in
from judge.bench.admission.reference_run import Reference, doubled, leaves, relative, spread
from judge.values import Flaw

# A difference below this share of the output's spread does not show.
INVISIBLE = 1e-5
NOISE_SHARE = {torch.float64: 1e-6, torch.float32: 1e-2}  # rounding error / spread; 16-bit types: 1e-1
REDRAWN = 31_000
MOST_INPUTS = 8  # more are not tried one by one

CONSTANT = Flaw(
    "problem.constant",
    "The output does not depend on the input: every element is the same constant. "
    "A softmax over a dimension of size 1 or the sum of a softmax does this.",
    "Check the dimensions of the last reductions, and what a clamp leaves.",
)
BLIND = Flaw(
    "problem.input_insensitive",
    "The output does not depend on the input: new inputs from get_inputs() left it unchanged.",
    "Use the inputs in forward.",
)
NOISE = Flaw(
    "problem.near_zero",
    "The output is rounding noise around zero: in exact arithmetic it vanishes. "
    "The mean over a dimension that LayerNorm has just centred does this.",
    "Return the tensor before the operator that cancels it.",
)


@dataclass(frozen=True)
class Draw:
    """One set of inputs and what the reference makes of it (fp64 leaves)."""

    inputs: list[Any]
    output: Any
    leaves: list[torch.Tensor]


def draws_of(reference: Reference, first: Draw, count: int = 3) -> list[Draw]:
    """`first` and further draws with other inputs. Inputs that the factory does not vary are varied here."""
    found = [first]
    for number in range(1, count):
        inputs = reference.draw(REDRAWN + number)
        if same_values(inputs, first.inputs):
            inputs = varied(first.inputs, REDRAWN + number)
        output = reference.run(inputs)
        found.append(Draw(inputs, output, leaves(output)))
    return found


def varied(inputs: list[Any], seed: int, only: int | None = None) -> list[Any]:
    """Inputs with new values of the same mean and spread; integers stay in range. `only`: one tensor, by number."""
    number = -1

    def vary(value: Any) -> Any:
        nonlocal number
        if not isinstance(value, torch.Tensor):
            return value
        number += 1
        return value if only is not None and number != only else _vary(value, source(value, seed + number))

    return torch.utils._pytree.tree_map(vary, inputs)  # type: ignore[no-any-return]


def source(value: torch.Tensor, seed: int) -> torch.Generator:
    """A generator on the device of `value`."""
    return torch.Generator(device=value.device).manual_seed(seed)


def _vary(value: torch.Tensor, numbers: torch.Generator) -> torch.Tensor:
    if value.numel() == 0:
        return value
    if value.is_floating_point():
        plain = value.double()
        width = spread(plain) or max(1.0, float(plain.abs().max()))
        noise = torch.randn(value.shape, generator=numbers, device=value.device, dtype=torch.float64)
        return (float(plain.mean()) + width * noise).to(value.dtype)
    if value.dtype == torch.bool:
        return torch.randint(0, 2, value.shape, generator=numbers, device=value.device).bool()
    if value.is_complex():
        return value * 1.5 + 0.5
    low, high = int(value.min()), int(value.max())
    return torch.randint(low, high + 1, value.shape, generator=numbers, device=value.device, dtype=value.dtype)


def same_values(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two sets of inputs hold the same tensors."""
    pairs = zip(tensors_in(one), tensors_in(other), strict=False)
    return all(a.shape == b.shape and torch.equal(a, b) for a, b in pairs)


def fixed_inputs(reference: Reference, first: Draw) -> Flaw | None:
    """Inputs that are the same for every seed: what was learned from one run then answers the next."""
    if not same_values(reference.draw(REDRAWN), first.inputs):
        return None
    return Flaw(
        "problem.seed_insensitive",
        "get_inputs() returns the same values for every seed. Other values are used beside them.",
        "Draw them with torch.randn, torch.rand or torch.randint.",
        flags=False,
    )


def output_flaw(draws: list[Draw]) -> Flaw | None:
    """Constant outputs, and outputs that are the same for other inputs."""
    first = draws[0]
    if all(_is_constant([draw.leaves[i] for draw in draws]) for i in range(len(first.leaves))):
        return CONSTANT
    if all(relative(first.leaves, draw.leaves) < INVISIBLE for draw in draws[1:]):
        return BLIND
    return None


def _is_constant(values: list[torch.Tensor]) -> bool:
    finite = torch.cat([value.flatten() for value in values])
    finite = finite[finite.isfinite()]
    if not finite.numel():
        return False
    return float(finite.max() - finite.min()) <= 1e-6 * float(finite.abs().max())


def rounding_flaw(reference: Reference, first: Draw) -> Flaw | None:
    """Outputs that are mostly rounding noise, by comparison with fp64. None also when fp64 cannot run."""
    kinds = [tensor.dtype for tensor in tensors_in(first.output) if tensor.is_floating_point()]
    if not kinds:
        return None
    try:
        exact = leaves(reference.double().run(doubled(first.inputs)))
    except (RuntimeError, TypeError, ValueError):
        return None  # a dtype written into forward: no oracle in fp64 then
    share = relative(exact, first.leaves)
    if share <= max(NOISE_SHARE.get(kind, 1e-1) for kind in kinds):
        return None
    largest = max(float(leaf.abs().max()) for leaf in exact if leaf.numel())
    noise = max(float(leaf.abs().max()) for leaf in first.leaves if leaf.numel())
    if largest < 1e-3 * noise:
        return NOISE
    return Flaw(
        "problem.ill_conditioned",
        f"The reference itself is off by {share:.1%} of the output's spread against fp64: no candidate can be judged.",
        "Avoid differences of large equal numbers, or compute them in float64.",
    )


def blind_inputs(reference: Reference, first: Draw) -> Flaw | None:
    """Input tensors that can change without any effect on the output; for the worth-knowing list only."""
    count = len(tensors_in(first.inputs))
    if not 2 <= count <= MOST_INPUTS:
        return None
    blind = []
    for number in range(count):
        output = _try(reference, varied(first.inputs, REDRAWN, only=number))
        if output is not None and relative(first.leaves, leaves(output)) < INVISIBLE:
            blind.append(str(number))
    if not blind:
        return None
    message = f"Input {', '.join(blind)} has no effect on the output."
    return Flaw("problem.unused_input", message, "Remove it, or use it in forward.", flags=False)


def _try(reference: Reference, inputs: list[Any]) -> Any:
    try:
        return reference.run(inputs)
    except (RuntimeError, ValueError, IndexError):
        return None  # the forward does not take such values: nothing can be said
