"""The op graph of a reference by torch.export, and what it moves and computes. Shapes run on fake tensors."""

from __future__ import annotations

import io
import logging
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from judge.values.graph import OpGraph, OpNode, TensorInfo

# Bookkeeping that export adds; it has no effect on values.
_CHECKS = ("aten._assert", "aten.sym_constrain", "aten._assert_tensor_metadata")
# Identities for inference: a reference to them becomes a reference to their argument.
_IDENTITIES = frozenset(
    {"aten.lift_fresh_copy.default", "aten.detach.default", "aten.detach_.default", "aten.alias.default"}
)
SMALL_CONSTANT = 64  # constants up to this many elements carry their values


@dataclass(frozen=True)
class Trace:
    """A graph, or the sentence that says why there is none. `program` is the torch ExportedProgram behind the graph."""

    graph: OpGraph | None
    reason: str = ""
    program: Any = None

    def line(self, node: str) -> str:
        """The source line that made a node; empty when torch has not kept it."""
        found = [one for one in self.program.graph.nodes if one.name == node] if self.program is not None else []
        lines = (found[0].meta.get("stack_trace") or "").strip().splitlines() if found else []
        return lines[-1].strip()[:120] if lines else ""


def trace(model: torch.nn.Module, inputs: Sequence[Any]) -> OpGraph | None:
    """The ATen graph of `model(*inputs)`, or None when it cannot be traced (see `trace_report` for the reason).

    `inputs` may be real, meta or fake tensors and plain scalars. Node names depend only on the module's code.
    """
    return trace_report(model, inputs).graph


def trace_report(model: torch.nn.Module, inputs: Sequence[Any]) -> Trace:
    """Like `trace`, with the reason when there is no graph and the exported program when there is one."""
    try:
        with _quiet(), torch.no_grad():
            program = torch.export.export(model, tuple(inputs), strict=False)
            return Trace(_Reader(program, tuple(inputs)).graph(), program=program)
    except Exception as error:  # noqa: BLE001  the module's own code runs here and may raise anything
        return Trace(None, reason=_sentence(error))


@contextmanager
def _quiet() -> Iterator[None]:
    """No warnings, log lines or printed graphs from torch while it traces: a failed trace is an answer."""
    logger = logging.getLogger("torch")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _sentence(error: Exception) -> str:
    text = (str(error).strip().splitlines() or [""])[0][:300]
    kind = type(error).__name__
    if "DataDependent" in kind or "data-dependent" in text:
        return f"The control flow or a shape depends on the values of a tensor, so there is no fixed op graph: {text}"
    return f"torch.export could not trace the module ({kind}): {text}"


class _DataDependentShape(Exception):
    """A size is symbolic: it is known only when the module runs."""


class _Reader:
    """Turns one ExportedProgram into plain nodes."""

    def __init__(self, program: Any, inputs: tuple[Any, ...]) -> None:
        self.program = program
        self.paths = [_path(keys) for keys, _ in pytree.tree_flatten_with_path(inputs)[0]]
        self.specs = {
            spec.arg.name: spec for spec in program.graph_signature.input_specs if getattr(spec.arg, "name", "")
        }
        self.same: dict[str, str] = {}  # name of a skipped identity -> the node it stands for
        self.seen_inputs = 0

    def graph(self) -> OpGraph:
        nodes: list[OpNode] = []
        for fx_node in self.program.graph.nodes:
            node = self._node(fx_node)
            if node is not None:
                nodes.append(node)
        return OpGraph(tuple(nodes))

    def _node(self, fx_node: Any) -> OpNode | None:
        if fx_node.op == "placeholder":
            return self._placeholder(fx_node)
        if fx_node.op == "output":
            return self._output()
        if fx_node.op == "get_attr":  # a sub-graph of torch.cond and the like
            raise _DataDependentShape(f"{fx_node.name} is a sub-graph, which the op graph cannot hold")
        name = _op_name(fx_node.target)
        if name.startswith(_CHECKS):
            return None
        if name in _IDENTITIES:
            self.same[fx_node.name] = self._resolve(fx_node.args[0].name)
            return None
        value = fx_node.meta.get("val")
        return OpNode(
            name=fx_node.name,
            op=name,
            args=tuple(self._value(item) for item in fx_node.args),
            kwargs={key: self._value(item) for key, item in fx_node.kwargs.items()},
            out=_info(value),
            outs=tuple(_info(item) for item in value) if isinstance(value, tuple | list) else (),
        )

    def _placeholder(self, fx_node: Any) -> OpNode:
        spec = self.specs[fx_node.name]
        kind = spec.kind.name
        value = fx_node.meta.get("val")
        if kind == "USER_INPUT":
            target = self.paths[self.seen_inputs]
            self.seen_inputs += 1
            plain = () if isinstance(value, torch.Tensor) else (self._value(value),)
            return OpNode(fx_node.name, "input", target=target, args=plain, out=_info(value))
        op = {"PARAMETER": "parameter", "BUFFER": "buffer"}.get(kind, "constant")
        args = (_content(self.program.constants.get(spec.target)),) if op == "constant" else ()
        return OpNode(fx_node.name, op, target=str(spec.target), args=args, out=_info(value))

    def _output(self) -> OpNode:
        leaves = []
        for spec in self.program.graph_signature.output_specs:
            if spec.kind.name != "USER_OUTPUT":
                continue  # buffer and input mutation of a functionalised program
            constant = hasattr(spec.arg, "value")
            leaves.append(
                self._value(spec.arg.value) if constant else {"node": self._resolve(spec.arg.name)},
            )
        nested = pytree.tree_unflatten(leaves, self.program.call_spec.out_spec)
        return OpNode("output", "output", args=(_plain_nest(nested),))

    def _resolve(self, name: str) -> str:
        return self.same.get(name, name)

    def _value(self, value: Any) -> Any:
        """JSON form of one argument, as the docstring of `OpNode` says."""
        if isinstance(value, torch.fx.Node):
            return {"node": self._resolve(value.name)}
        if isinstance(value, tuple | list):
            return [self._value(item) for item in value]
        if isinstance(value, dict):
            return {"dict": {str(key): self._value(item) for key, item in value.items()}}
        if isinstance(value, torch.dtype):
            return {"dtype": str(value).removeprefix("torch.")}
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            raise _DataDependentShape(f"a size is known only when the module runs ({value})")
        if isinstance(value, float) and value in (float("inf"), float("-inf")):
            return {"repr": "inf" if value > 0 else "-inf"}  # JSON has no infinity
        if value is None or isinstance(value, bool | int | float | str):
            return {"repr": "nan"} if value != value else value
        return {"repr": str(value)}


def _path(keys: Sequence[Any]) -> str:
    """("0",) for the first input, "1.a" for the entry "a" of a dict given second."""
    return ".".join(str(getattr(key, "idx", getattr(key, "key", key))) for key in keys)


def _op_name(target: Any) -> str:
    """`aten.add.Tensor` for an overload; "getitem" for picking from a tuple; else the callable's own name."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return str(getattr(target, "__name__", target))


def _info(value: Any) -> TensorInfo | None:
    if not isinstance(value, torch.Tensor):
        return None
    if any(not isinstance(size, int) for size in (*value.shape, *value.stride())):
        raise _DataDependentShape(f"a shape is known only when the module runs {tuple(value.shape)}")
    return TensorInfo(tuple(value.shape), str(value.dtype).removeprefix("torch."), tuple(value.stride()))


def _content(tensor: Any) -> Any:
    """Values of a small real constant as nested lists, else None (large, or known by shape only)."""
    fake = isinstance(tensor, torch._subclasses.FakeTensor) or getattr(tensor, "is_meta", False)
    if not isinstance(tensor, torch.Tensor) or fake or tensor.numel() > SMALL_CONSTANT:
        return None
    values = tensor.detach().cpu()
    return (values if values.isfinite().all() else values.nan_to_num()).tolist()


def _plain_nest(value: Any) -> Any:
    """Tuples as lists, dicts as {"dict": {...}}; leaves are already JSON."""
    if isinstance(value, tuple | list):
        return [_plain_nest(item) for item in value]
    if isinstance(value, Mapping) and not ({"node", "dtype", "repr"} & set(value)):
        return {"dict": {str(key): _plain_nest(item) for key, item in value.items()}}
    return value


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
    total = sum(bytes_of(tensor) for tensor in tensors_in(outputs))
    if graph is None:
        return total + sum(bytes_of(tensor) for tensor in (*tensors_in(inputs), *state.values()))
    users = users_of(graph)
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


def bytes_of(tensor: torch.Tensor | TensorInfo) -> int:
    """Bytes without what a broadcast dimension repeats."""
    stride = tensor.stride if isinstance(tensor, TensorInfo) else tensor.stride()
    dtype: torch.dtype = getattr(torch, tensor.dtype) if isinstance(tensor, TensorInfo) else tensor.dtype
    pairs = zip(tensor.shape, stride, strict=True)
    elements: int = math.prod(size if step != 0 else min(size, 1) for size, step in pairs)
    return int(elements * dtype.itemsize)


def users_of(graph: OpGraph) -> dict[str, list[OpNode]]:
    """By the name of each node, the nodes that read it."""
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
    whole = bytes_of(node.out)
    gathered = [base_name(user) in _GATHERS and references(user.args[:1]) == [node.name] for user in users]
    if users and all(gathered):
        return min(whole, sum(bytes_of(user.out) for user in users if user.out is not None))
    return whole


def base_name(node: OpNode) -> str:
    """`aten.max.dim` -> `max`, `aten.add_.Tensor` -> `add`."""
    parts = node.op.split(".")
    return parts[1].rstrip("_") if len(parts) > 1 else node.op


def _steps(node: OpNode, infos: dict[str, TensorInfo | None]) -> int:
    name = base_name(node)
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
