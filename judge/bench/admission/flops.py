"""What a problem costs by its op graph: bytes that must move, and how long the interpreter would take."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from judge.bench.interpreting.op_traffic import count_flops
from judge.values.graph import OpGraph, OpNode, TensorInfo

__all__ = ["StepEstimate", "compulsory_bytes", "count_flops", "interpreter_steps", "tensors_in"]

# One program or K-step of an interpreted kernel handles about this much and takes about a millisecond (0.5-1.6 ms).
BLOCK_ELEMENTS = 2048
DOT_FLOPS = 2 * 64 * 64 * 32
STEP_S = 0.001

_DOTS = ("linear", "mm", "bmm", "matmul", "addmm", "addbmm", "baddbmm", "einsum", "conv", "scaled_dot_product")
_GATHERS = ("embedding", "index", "index_select", "gather", "take")
_VIEWS = frozenset(
    {
        "view", "reshape", "transpose", "permute", "t", "unsqueeze", "squeeze", "expand", "slice", "select", "chunk",
        "split", "split_with_sizes", "flatten", "unflatten", "expand_as", "view_as", "narrow", "unbind", "movedim",
        "numpy_T", "mT", "swapaxes", "detach", "alias",
    }
)  # fmt: skip


@dataclass(frozen=True)
class StepEstimate:
    """Interpreter steps of one forward, and the operator that needs most of them."""

    steps: int
    op: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""

    @property
    def seconds(self) -> float:
        return self.steps * STEP_S


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Every tensor inside a nested value, in order."""
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def compulsory_bytes(model: torch.nn.Module, inputs: Any, outputs: Any, graph: OpGraph | None) -> int:
    """Each input, used parameter and output moved once; what is only gathered from counts as what comes out.

    Broadcast (stride 0) dimensions count once. Without a graph every parameter and buffer counts as used.
    """
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    total = sum(_bytes(tensor) for tensor in tensors_in(outputs))
    if graph is None:
        return total + sum(_bytes(tensor) for tensor in (*tensors_in(inputs), *state.values()))
    users = _users(graph)
    for node in graph.nodes:
        if node.op in {"input", "parameter", "buffer", "constant"} and node.out is not None and users[node.name]:
            total += _read_bytes(node, users[node.name])
    return total


def interpreter_steps(graph: OpGraph) -> StepEstimate:
    """How many program steps an unfused Triton version of the graph needs under the interpreter."""
    infos = {node.name: node.out for node in graph.nodes}
    worst, total = StepEstimate(0), 0
    for node in graph.nodes:
        steps = _steps(node, infos)
        total += steps
        if steps > worst.steps and node.out is not None:
            worst = StepEstimate(steps, node.op, *_widest(node, infos))
    return StepEstimate(total, worst.op, worst.shape, worst.dtype)


def _bytes(tensor: torch.Tensor) -> int:
    return _info_bytes(tensor.shape, tensor.stride(), tensor.element_size())


def _info_bytes(shape: Iterable[int], stride: Iterable[int], item: int) -> int:
    return item * math.prod(size if step != 0 else min(size, 1) for size, step in zip(shape, stride, strict=True))


def _size(info: TensorInfo) -> int:
    dtype: torch.dtype = getattr(torch, info.dtype)
    return _info_bytes(info.shape, info.stride, dtype.itemsize)


def _users(graph: OpGraph) -> dict[str, list[OpNode]]:
    users: dict[str, list[OpNode]] = {node.name: [] for node in graph.nodes}
    for node in graph.nodes:
        for name in references((node.args, node.kwargs)):
            users[name].append(node)
    return users


def references(value: Any) -> list[str]:
    """Names of the nodes that an argument refers to, however deeply nested."""
    if isinstance(value, dict):
        if isinstance(value.get("node"), str) and len(value) == 1:
            return [value["node"]]
        return [name for item in value.values() for name in references(item)]
    if isinstance(value, list | tuple):
        return [name for item in value for name in references(item)]
    return []


def _read_bytes(node: OpNode, users: list[OpNode]) -> int:
    assert node.out is not None
    whole = _size(node.out)
    gathered = [_base(user) in _GATHERS and references(user.args[:1]) == [node.name] for user in users]
    if users and all(gathered):
        return min(whole, sum(_size(user.out) for user in users if user.out is not None))
    return whole


def _base(node: OpNode) -> str:
    parts = node.op.split(".")
    return parts[1].rstrip("_") if len(parts) > 1 else node.op


def _steps(node: OpNode, infos: dict[str, TensorInfo | None]) -> int:
    name = _base(node)
    if not node.op.startswith("aten.") or (node.out is None and not node.outs) or name in _VIEWS:
        return 0
    sizes = [math.prod(info.shape) for info in _touched(node, infos)]
    steps = math.ceil(max(sizes, default=0) / BLOCK_ELEMENTS)
    return max(steps, math.ceil(_dot_flops(node, name, infos) / DOT_FLOPS))


def _dot_flops(node: OpNode, name: str, infos: dict[str, TensorInfo | None]) -> float:
    """FLOPs of a matrix product: 2 x results x reduced length, the latter from the operands' element counts."""
    if node.out is None or not name.startswith(_DOTS):
        return 0.0
    operands = [info for info in (infos.get(ref) for ref in references(node.args[:3])) if info is not None]
    if len(operands) < 2:
        return 0.0
    if name.startswith("conv"):  # weight (out, in / groups, *kernel), transposed (in, out / groups, *kernel)
        spots = operands[0] if name.startswith("conv_transpose") else node.out
        return 2.0 * math.prod(spots.shape) * math.prod(operands[1].shape[1:])
    if name.startswith("scaled_dot_product"):
        return 4.0 * math.prod(node.out.shape) * operands[1].shape[-2]
    first = operands[-2] if name.startswith(("addmm", "addbmm", "baddbmm")) else operands[0]
    return 2.0 * math.prod(node.out.shape) * (first.shape[-1] if first.shape else 1)


def _touched(node: OpNode, infos: dict[str, TensorInfo | None]) -> list[TensorInfo]:
    operands = [infos.get(name) for name in references(node.args)]
    return [info for info in (*operands, node.out, *node.outs) if info is not None]


def _widest(node: OpNode, infos: dict[str, TensorInfo | None]) -> tuple[tuple[int, ...], str]:
    info = max(_touched(node, infos), key=lambda item: math.prod(item.shape))
    return info.shape, info.dtype
