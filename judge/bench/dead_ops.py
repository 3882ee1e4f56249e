"""Finds operators whose result could be replaced by its mean without anybody noticing: sub-graphs that do no work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Interpreter, Node

from judge.bench.degeneracy import INVISIBLE, Finding
from judge.bench.reference_run import SEED, leaves, relative

# Results of these may be shifted out for numerical safety (x - max(x) before exp) without being dead.
_SHIFTS = ("aten.amax", "aten.amin", "aten.max", "aten.min", "aten.maximum", "aten.minimum", "aten.logsumexp")
_RESHAPES = (
    "aten.view", "aten.reshape", "aten.transpose", "aten.permute", "aten.t.", "aten.unsqueeze", "aten.squeeze",
    "aten.expand", "aten.slice", "aten.select", "aten.contiguous", "aten.to.", "aten.clone", "aten.flatten",
    "aten.detach", "aten.alias", "aten.lift_fresh", "aten.dropout", "aten.chunk", "aten.split",
)  # fmt: skip


class _Replacing(Interpreter):  # type: ignore[misc]
    """Runs a graph; the node called `victim` gives its mean everywhere instead of its values."""

    def __init__(self, module: Any, victim: str = "") -> None:
        super().__init__(module)
        self.victim = victim

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        return torch.full_like(value, value.double().mean().item()) if n.name == self.victim else value


def dead_finding(
    program: Any, inputs: list[Any], restore: Callable[[], None], *, budget_s: float, clock: Callable[[], float]
) -> Finding | None:
    """The first dead operator of an exported program; None also when time runs out. Calls `restore` at the end.

    Checked on the inputs as given and scaled by ten: an operator is dead only when it shows on neither.
    """
    module = program.module()
    stop = clock() + budget_s
    try:
        with torch.no_grad():
            sets = [inputs, [_scaled(item) for item in inputs]]
            plain = [_run(module, "", values) for values in sets]
            for node in _candidates(module):
                if clock() > stop:
                    return None
                if all(
                    _finite(base) and relative(base, _run(module, node.name, values)) < INVISIBLE
                    for base, values in zip(plain, sets, strict=True)
                ):
                    return _finding(node)
    finally:
        restore()
    return None


def _run(module: Any, victim: str, inputs: list[Any]) -> list[torch.Tensor]:
    torch.manual_seed(SEED)
    copies = [item.clone() if isinstance(item, torch.Tensor) else item for item in inputs]
    return leaves(_Replacing(module, victim).run(*copies))


def _finite(values: list[torch.Tensor]) -> bool:
    return all(bool(value.isfinite().all()) for value in values)


def _scaled(item: Any) -> Any:
    return item * 10 if isinstance(item, torch.Tensor) and item.is_floating_point() else item


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
        if plain and node.users and not name.startswith((*_RESHAPES, "<built-in")):
            chosen.append(node)
    return chosen


def _finding(node: Node) -> Finding:
    shape = list(node.meta["val"].shape)
    where = (node.meta.get("stack_trace") or "").strip().splitlines()
    line = f" (`{where[-1].strip()}`)" if where else ""
    return Finding(
        "problem.dead_ops",
        f"The result of {node.target} {shape}{line} has no effect: its mean alone gives the same output.",
    )
