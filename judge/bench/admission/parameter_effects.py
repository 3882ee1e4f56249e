"""Do the parameters show? Weights that can be changed without any effect on the output."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from judge.bench.admission.degeneracy import INVISIBLE, REDRAWN, Draw, source
from judge.bench.admission.flops import references
from judge.bench.admission.reference_run import Reference, leaves, relative, spread
from judge.bench.judging.state import State
from judge.values import Flaw
from judge.values.graph import OpGraph

SMALL_PART = 0.1  # of all used elements: a bias before a normalisation, not the weight of a layer


def used_parameters(graph: OpGraph | None) -> frozenset[str]:
    """Qualified names of the parameters that some operator reads."""
    if graph is None:
        return frozenset()
    read = {name for node in graph.nodes for name in references((node.args, node.kwargs))}
    return frozenset(node.target for node in graph.nodes if node.op == "parameter" and node.name in read)


def parameter_flaw(
    reference: Reference, first: Draw, used: Iterable[str], *, each: bool, more: Callable[[], bool]
) -> Flaw | None:
    """Weights without effect: all of them, or (with `each`) some that the forward uses all the same.

    Looked at as constructed and with other parameters: a residual branch that starts at zero is not dead. A small
    part of them, such as the bias of a layer in front of a batch normalisation, is worth knowing only. `more` says
    whether there is time for another one.
    """
    sizes = {name: value.numel() for name, value in reference.model.named_parameters() if value.is_floating_point()}
    if not sizes:
        return None
    effects = [_Effects(reference, first, state) for state in (reference.first, reference.redrawn())]
    if not any(effect.shows(list(sizes)) for effect in effects):
        return Flaw(
            "problem.param_insensitive",
            "The output does not depend on any parameter of the module.",
            "Use the parameters in forward, or remove them.",
        )
    read = sorted(set(used) & set(sizes)) if each else []
    silent = [name for name in read if more() and not any(effect.shows([name]) for effect in effects)]
    return _silent(silent, sum(sizes[name] for name in silent) / sum(sizes.values())) if silent else None


def _silent(names: list[str], part: float) -> Flaw:
    one = len(names) == 1
    return Flaw(
        "problem.dead_ops" if part > SMALL_PART else "problem.silent_parameters",
        f"{'The parameter' if one else 'The parameters'} {', '.join(names[:6])} {'has' if one else 'have'} no effect "
        f"on the output: what {'it feeds' if one else 'they feed'} is cancelled, "
        "like a bias just before a normalisation.",
        "Leave it out (bias=False), or keep what it feeds.",
        flags=part > SMALL_PART,
    )


class _Effects:
    """What changes of single parameters do to the output, from one state of all of them."""

    def __init__(self, reference: Reference, first: Draw, state: State) -> None:
        self.reference = reference
        self.inputs = first.inputs
        self.state = state
        self.base = leaves(reference.run(first.inputs, state=state))

    def shows(self, names: list[str]) -> bool:
        changed = State(self.state.items())
        for number, name in enumerate(names):
            changed[name] = _shifted(self.state[name], REDRAWN + number)
        try:
            output = self.reference.run(self.inputs, state=changed)
        except (RuntimeError, ValueError):
            return True  # a parameter that can break forward is not without effect
        return relative(self.base, leaves(output)) >= INVISIBLE


def _shifted(value: torch.Tensor, seed: int) -> torch.Tensor:
    noise = torch.randn(value.shape, generator=source(value, seed), device=value.device, dtype=torch.float64)
    return value + (max(1.0, 3 * spread(value.double())) * noise).to(value.dtype)
