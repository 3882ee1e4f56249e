"""Finds operators whose result could be replaced by its mean without anybody noticing: sub-graphs that do no work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Interpreter, Node

from judge.bench.admission.degeneracy import INVISIBLE
from judge.bench.admission.reference_run import SEED, leaves, relative
from judge.values import Flaw

# Results of these may be shifted out for numerical safety (x - max(x) before exp) without being dead.
_SHIFTS = ("aten.amax", "aten.amin", "aten.max", "aten.min", "aten.maximum", "aten.minimum", "aten.logsumexp")
_RESHAPES = (
    "aten.view", "aten.reshape", "aten.transpose", "aten.permute", "aten.t.", "aten.unsqueeze", "aten.squeeze",
    "aten.expand", "aten.slice", "aten.select", "aten.contiguous", "aten.to.", "aten.clone", "aten.flatten",
    "aten.detach", "aten.alias", "aten.lift_fresh", "aten.dropout", "aten.chunk", "aten.split",
)  # fmt: skip
# What only these read may wait for content that the trials do not hold.
_CHOICES = ("aten.where", "aten.masked_fill", "aten.masked_scatter", "aten.masked_select", "aten.index_put")


@dataclass(frozen=True)
class Trial:
    """Inputs to run the graph on, and the parameters and buffers (by qualified name) that it has then."""

    inputs: Sequence[Any]
    state: Mapping[str, torch.Tensor]


class _Replacing(Interpreter):  # type: ignore[misc]
    """Runs a graph; the node called `victim` gives its mean everywhere instead of its values."""

    def __init__(self, module: Any, victim: str = "") -> None:
        super().__init__(module)
        self.victim = victim
        self.changed = False  # the victim had other values than its mean

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n.name != self.victim:
            return value
        flat = torch.full_like(value, value.double().mean().item())
        self.changed = relative([value.double()], [flat.double()]) >= INVISIBLE
        return flat


def dead_flaw(
    program: Any, trials: Sequence[Trial], *, line: Callable[[str], str], budget_s: float, clock: Callable[[], float]
) -> Flaw | None:
    """The first operator of an exported program that shows on no trial; None also when time runs out.

    `line` gives the source line of a node, or "". The program's parameters are left as they were.
    """
    module = program.module()
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    before = {name: tensor.detach().clone() for name, tensor in own.items()}
    stop = clock() + budget_s
    try:
        with torch.no_grad():
            bases = [_run(module, own, trial)[0] for trial in trials]
            for node in _candidates(module):
                if clock() > stop:
                    return None
                if _is_dead(module, own, node.name, trials, bases):
                    return _flaw(node, line(node.name))
    finally:
        _load(own, before)
    return None


def _is_dead(
    module: Any, own: dict[str, torch.Tensor], name: str, trials: Sequence[Trial], bases: list[list[torch.Tensor]]
) -> bool:
    informative = False
    for trial, base in zip(trials, bases, strict=True):
        if not all(bool(value.isfinite().all()) for value in base):
            return False
        replaced, changed = _run(module, own, trial, name)
        if relative(base, replaced) >= INVISIBLE:
            return False
        informative = informative or changed
    return informative


def _run(module: Any, own: dict[str, torch.Tensor], trial: Trial, victim: str = "") -> tuple[list[torch.Tensor], bool]:
    _load(own, trial.state)
    torch.manual_seed(SEED)
    copies = [item.clone() if isinstance(item, torch.Tensor) else item for item in trial.inputs]
    runner = _Replacing(module, victim)
    return leaves(runner.run(*copies)), runner.changed


def _load(own: dict[str, torch.Tensor], state: Mapping[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in own.items():
            if name in state and state[name].shape == tensor.shape:
                tensor.copy_(state[name])


def _candidates(module: Any) -> list[Node]:
    """Floating results of more than one element that come from an input, are used, and are no mere reshaping."""
    from_input: set[Node] = set()
    shifts: set[Node] = set()
    chosen = []
    for node in module.graph.nodes:
        name = str(node.target)
        fed = [source for source in node.all_input_nodes if source in from_input]
        if node.op == "placeholder" or fed:
            from_input.add(node)
        if node.op != "call_function" or not fed:
            continue
        if name.startswith(_SHIFTS) or all(source in shifts for source in fed):
            shifts.add(node)
            continue
        value = node.meta.get("val")
        plain = isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() > 1
        chosen_from = bool(node.users) and all(str(user.target).startswith(_CHOICES) for user in node.users)
        if plain and node.users and not chosen_from and not name.startswith((*_RESHAPES, "<built-in")):
            chosen.append(node)
    return chosen


def _flaw(node: Node, line: str) -> Flaw:
    shape = list(node.meta["val"].shape)
    where = f" (`{line}`)" if line else ""
    return Flaw(
        "problem.dead_ops",
        f"The result of {node.target} {shape}{where} has no effect: its mean alone gives the same output.",
        "Remove what computes it, or the operator that cancels it.",
    )
