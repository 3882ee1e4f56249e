"""Is the problem worth solving? Finds outputs that need no computing: constant, near zero, blind to inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from judge.bench.flops import tensors_in
from judge.bench.reference_run import Reference, doubled, leaves, relative, spread

# A difference below this share of the output's spread does not show.
INVISIBLE = 1e-5
# A stand-in that comes this close to the output, in units of its spread, would be as good as the reference.
GOOD_ENOUGH = 1e-3
NOISE_SHARE = {torch.float64: 1e-6, torch.float32: 1e-2}  # rounding error / spread; 16-bit types: 1e-1
REDRAWN = 31_000


@dataclass(frozen=True)
class Finding:
    """Why a problem is degenerate: reason code and a sentence that says what to change."""

    reason: str
    message: str


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
        if _same(inputs, first.inputs):
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
        return value if only is not None and number != only else _vary(value, _source(value, seed + number))

    return torch.utils._pytree.tree_map(vary, inputs)  # type: ignore[no-any-return]


def _source(value: torch.Tensor, seed: int) -> torch.Generator:
    return torch.Generator(device=value.device).manual_seed(seed)


def _vary(value: torch.Tensor, source: torch.Generator) -> torch.Tensor:
    if value.numel() == 0:
        return value
    if value.is_floating_point():
        plain = value.double()
        width = spread(plain) or max(1.0, float(plain.abs().max()))
        noise = torch.randn(value.shape, generator=source, device=value.device, dtype=torch.float64)
        return (float(plain.mean()) + width * noise).to(value.dtype)
    if value.dtype == torch.bool:
        return torch.randint(0, 2, value.shape, generator=source, device=value.device).bool()
    if value.is_complex():
        return value * 1.5 + 0.5
    low, high = int(value.min()), int(value.max())
    return torch.randint(low, high + 1, value.shape, generator=source, device=value.device, dtype=value.dtype)


def _same(one: list[Any], other: list[Any]) -> bool:
    pairs = zip(tensors_in(one), tensors_in(other), strict=False)
    return all(a.shape == b.shape and torch.equal(a, b) for a, b in pairs)


def output_finding(draws: list[Draw]) -> Finding | None:
    """Constant or input-blind outputs, and null candidates (zeros, a constant, an input, the mean) that would pass."""
    first = draws[0]
    if all(_is_constant([draw.leaves[i] for draw in draws]) for i in range(len(first.leaves))):
        return Finding(
            "problem.constant",
            "The output does not depend on the input: every element is the same constant. "
            "A softmax over a dimension of size 1 or the sum of a softmax does this.",
        )
    if all(relative(first.leaves, draw.leaves) < INVISIBLE for draw in draws[1:]):
        return Finding(
            "problem.input_insensitive",
            "The output does not depend on the input: new inputs from get_inputs() left it unchanged.",
        )
    for name, reason, stand_in in _null_candidates(draws):
        if relative(draws[-1].leaves, stand_in) < GOOD_ENOUGH:
            return Finding(reason, f"A candidate that returns {name} would pass: the output carries no computation.")
    return None


def _is_constant(values: list[torch.Tensor]) -> bool:
    finite = torch.cat([value.flatten() for value in values])
    finite = finite[finite.isfinite()]
    if not finite.numel():
        return False
    return float(finite.max() - finite.min()) <= 1e-6 * float(finite.abs().max())


def _null_candidates(draws: list[Draw]) -> Iterator[tuple[str, str, list[torch.Tensor]]]:
    last = draws[-1]
    yield "zeros", "problem.near_zero", [torch.zeros_like(leaf) for leaf in last.leaves]
    means = [leaf[leaf.isfinite()].mean() for leaf in draws[0].leaves]
    constants = [torch.full_like(leaf, float(mean)) for leaf, mean in zip(last.leaves, means, strict=False)]
    yield "one constant", "problem.constant", constants
    if len(last.leaves) == 1:
        for number, tensor in enumerate(tensors_in(last.inputs)):
            if tensor.shape == last.leaves[0].shape and not tensor.is_complex():
                yield f"its input {number} unchanged", "problem.identity", [tensor.double()]
    if all(leaf.shape == other.shape for leaf, other in zip(last.leaves, draws[0].leaves, strict=False)):
        stacks = [torch.stack([draw.leaves[i] for draw in draws[:-1]]) for i in range(len(last.leaves))]
        yield "the mean of earlier outputs", "problem.input_insensitive", [stack.mean(0) for stack in stacks]


def rounding_finding(reference: Reference, first: Draw) -> Finding | None:
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
        return Finding(
            "problem.near_zero",
            "The output is rounding noise around zero: in exact arithmetic it vanishes. "
            "The mean over a dimension that LayerNorm has just centred does this.",
        )
    return Finding(
        "problem.ill_conditioned",
        f"The reference itself is off by {share:.1%} of the output's spread against fp64: no candidate can be judged.",
    )


def blind_inputs(reference: Reference, first: Draw, limit: int = 8) -> list[int]:
    """Numbers of the input tensors that can change without any effect on the output."""
    count = len(tensors_in(first.inputs))
    if not 2 <= count <= limit:
        return []
    blind = []
    for number in range(count):
        output = _try(reference, varied(first.inputs, REDRAWN, only=number))
        if output is not None and relative(first.leaves, leaves(output)) < INVISIBLE:
            blind.append(number)
    return blind


def parameter_finding(reference: Reference, first: Draw, used: frozenset[str], *, each: bool) -> Finding | None:
    """Weights without effect: all of them, or (with `each`) one that the forward uses all the same."""
    names = [name for name, value in reference.model.named_parameters() if value.is_floating_point()]
    if not names:
        return None
    if not _shows(reference, first, names):
        return Finding("problem.param_insensitive", "The output does not depend on any parameter of the module.")
    for name in sorted(used & set(names)) if each else ():
        if not _shows(reference, first, [name]):
            return Finding(
                "problem.dead_ops",
                f"The parameter {name} has no effect on the output: what it feeds is cancelled, "
                "like a bias just before a normalisation.",
            )
    return None


def _shows(reference: Reference, first: Draw, names: list[str]) -> bool:
    parameters = dict(reference.model.named_parameters())
    with torch.no_grad():
        for number, name in enumerate(names):
            value = parameters[name]
            source = _source(value, REDRAWN + number)
            noise = torch.randn(value.shape, generator=source, device=value.device, dtype=torch.float64)
            value.add_((max(1.0, 3 * spread(value.double())) * noise).to(value.dtype))
    try:
        output = reference.run(first.inputs)
    except (RuntimeError, ValueError):
        return True  # a parameter that can break forward is not without effect
    finally:
        reference.restore()
    return relative(first.leaves, leaves(output)) >= INVISIBLE


def _try(reference: Reference, inputs: list[Any]) -> Any:
    try:
        return reference.run(inputs)
    except (RuntimeError, ValueError, IndexError):
        return None  # the forward does not take such values: nothing can be said
