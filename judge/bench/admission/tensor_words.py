"""How a preflight writes tensors, operators and amounts in its lines."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree


def described(value: Any) -> tuple[dict[str, Any], ...]:
    """One row per leaf: shape and dtype of a tensor, the value of anything else."""
    return tuple(
        {"shape": list(leaf.shape), "dtype": str(leaf.dtype).removeprefix("torch.")}
        if isinstance(leaf, torch.Tensor)
        else {"value": repr(leaf)[:80]}
        for leaf in pytree.tree_leaves(value)
    )


def short(row: dict[str, Any]) -> str:
    """`float32 [4, 8]`, or the value of what is no tensor."""
    return f"{row['dtype']} {row['shape']}" if "shape" in row else str(row["value"])


def listed(operators: list[str], limit: int = 6) -> str:
    """Names of ATen overloads in order, each once, without their prefix."""
    names = list(dict.fromkeys(op.removeprefix("aten.").split(".")[0] for op in operators))
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")


def si(value: float) -> str:
    """Three digits and the prefix of a unit: `1.5 G`."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {prefix}"
    return f"{value:.3g} "
