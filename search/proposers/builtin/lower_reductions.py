"""Reductions, softmax and the normalisations as primitives: means, sums and maxima joined by element-wise steps."""

from __future__ import annotations

from typing import Any

from judge.values.graph import OpNode
from search.proposers.builtin.builder import Builder
from search.proposers.builtin.ir import FLOATS, Prim, Size, Unsupported, product
from search.proposers.builtin.lower_pointwise import handles, result_dtype


def axes(x: Prim, dims: Any) -> list[int]:
    """Dimensions as a sorted list; None and [] mean all."""
    if dims is None or dims == []:
        return list(range(len(x.shape)))
    chosen = [dims] if isinstance(dims, int) else list(dims)
    return sorted(d % max(len(x.shape), 1) for d in chosen)


def worth_fusing(x: Prim, dims: list[int]) -> None:
    """Few, very long rows starve a one-program-per-row kernel: torch splits those over the device."""
    length = 1
    for d in dims:
        length *= x.shape[d]
    rows = x.numel // max(length, 1)
    if rows < 16 and length > 65536:
        raise Unsupported(f"{rows} rows of {length} elements are better split over the device by torch")


@handles("sum", "mean", "amax", "amin")
def simple(b: Builder, node: OpNode, x: Prim, dims: Any = None, keepdim: bool = False, **_: Any) -> Prim:
    dtype, where = result_dtype(node), axes(x, dims)
    if dtype not in FLOATS:
        raise Unsupported(f"{node.op} with a {dtype} result")
    worth_fusing(x, where)
    op = node.op.split(".")[1]
    if op == "mean":
        return b.mean(x, where, keepdim=keepdim, dtype=dtype)
    return b.point("copy", b.reduce(op.removeprefix("a"), x, where, keepdim=keepdim), dtype=dtype)


@handles("var", "std")
def variance(b: Builder, node: OpNode, x: Prim, dims: Any = None, *rest: Any, **named: Any) -> Prim:
    correction: Any = named.get("correction", 1)
    keepdim = bool(named.get("keepdim", False))
    if isinstance(dims, bool):
        raise Unsupported("var of a whole tensor with a flag")
    if rest:
        correction, keepdim = int(rest[0]), bool(rest[1]) if len(rest) > 1 else keepdim
    where = axes(x, dims)
    worth_fusing(x, where)
    squares = _squared_distance(b, x, where)
    total = b.reduce("sum", squares, where, keepdim=keepdim)
    count = Size(f"({b.count_of(x, where).text}) - {1 if correction is None else int(correction)}")
    last = "sqrt" if node.op.startswith("aten.std") else "copy"
    return b.point(last, b.point("div", total, count), dtype=result_dtype(node))


def _squared_distance(b: Builder, x: Prim, where: list[int]) -> Prim:
    return b.point("square", b.point("sub", x, b.mean(x, where, keepdim=True)))


@handles("linalg_vector_norm", "norm")
def vector_norm(b: Builder, node: OpNode, x: Prim, order: Any = 2, dims: Any = None, *rest: Any, **named: Any) -> Prim:
    where = axes(x, dims)
    worth_fusing(x, where)
    keepdim = bool(rest[0] if rest else named.get("keepdim", False))
    dtype = result_dtype(node)
    if order in {float("inf")}:
        return b.point("copy", b.reduce("max", b.point("abs", x), where, keepdim=keepdim), dtype=dtype)
    if order not in {1, 2}:
        raise Unsupported(f"norm of order {order}")
    each = b.point("square" if order == 2 else "abs", x)
    total = b.reduce("sum", each, where, keepdim=keepdim)
    return b.point("sqrt" if order == 2 else "copy", total, dtype=dtype)


@handles("softmax", "_softmax", "log_softmax", "_log_softmax")
def softmax(b: Builder, node: OpNode, x: Prim, dim: int, *_: Any, **__: Any) -> Prim:
    where = axes(x, dim)
    shifted = b.point("sub", x, b.reduce("max", x, where, keepdim=True))
    raised = b.point("exp", shifted)
    total = b.reduce("sum", raised, where, keepdim=True)
    if "log" in node.op:
        return b.point("sub", shifted, b.point("log", total), dtype=result_dtype(node))
    return b.point("div", raised, total, dtype=result_dtype(node))


@handles("logsumexp")
def logsumexp(b: Builder, node: OpNode, x: Prim, dims: Any, keepdim: bool = False) -> Prim:
    where = axes(x, dims)
    worth_fusing(x, where)
    top = b.point("finite_or_zero", b.reduce("max", x, where, keepdim=True))
    total = b.reduce("sum", b.point("exp", b.point("sub", x, top)), where, keepdim=True)
    whole = b.point("add", b.point("log", total), top, dtype=result_dtype(node))
    assert node.out is not None
    return b.reshape(whole, tuple(node.out.shape))


def _normalised(b: Builder, x: Prim, where: list[int], eps: float) -> Prim:
    distance = b.point("sub", x, b.mean(x, where, keepdim=True))
    spread = b.mean(b.point("square", distance), where, keepdim=True)
    return b.point("mul", distance, b.point("rsqrt", b.point("add", spread, float(eps))))


def _affine(b: Builder, x: Prim, weight: Prim | None, bias: Prim | None, dtype: str) -> Prim:
    if weight is not None:
        x = b.point("mul", x, weight, dtype="float32" if bias is not None else dtype)
    if bias is not None:
        x = b.point("add", x, bias, dtype=dtype)
    return b.point("copy", x, dtype=dtype) if x.dtype != dtype else x


@handles("layer_norm", "native_layer_norm")
def layer_norm(
    b: Builder,
    node: OpNode,
    x: Prim,
    shape: list[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    *_: Any,
) -> Prim | tuple[Prim, None, None]:
    where = list(range(len(x.shape) - len(shape), len(x.shape)))
    whole = _affine(b, _normalised(b, x, where, eps), weight, bias, x.dtype)
    return (whole, None, None) if "native" in node.op else whole


@handles("rms_norm")
def rms_norm(b: Builder, node: OpNode, x: Prim, shape: list[int], weight: Any = None, eps: Any = None) -> Prim:
    where = list(range(len(x.shape) - len(shape), len(x.shape)))
    small = {"float32": 1.1920929e-07, "float16": 0.0009765625, "bfloat16": 0.0078125}[x.dtype]
    spread = b.mean(b.point("square", x), where, keepdim=True)
    scale = b.point("rsqrt", b.point("add", spread, small if eps is None else float(eps)))
    return _affine(b, b.point("mul", x, scale), weight, None, result_dtype(node))


def _per_channel(b: Builder, value: Prim | None, rank: int) -> Prim | None:
    """(C,) as (C, 1, 1, ...), so that it broadcasts along dimension 1."""
    if value is None or rank == 2:
        return value
    ones = rank - 2
    return b.reshape(value, value.shape + (1,) * ones, value.sym + ("1",) * ones)


@handles("group_norm")
def group_norm(
    b: Builder, node: OpNode, x: Prim, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Prim:
    batch, channels = x.shape[0], x.shape[1]
    length = x.numel // (batch * groups)
    sym = (x.sym[0], str(groups), f"({product(x.sym[1:])}) // {groups}")
    rows = b.reshape(x, (batch, groups, length), sym)
    even = b.reshape(_normalised(b, rows, [2], eps), x.shape, x.sym)
    rank = len(x.shape)
    if channels == 1:
        raise Unsupported("group_norm of one channel")
    return _affine(b, even, _per_channel(b, weight, rank), _per_channel(b, bias, rank), x.dtype)


@handles("instance_norm")
def instance_norm(
    b: Builder, node: OpNode, x: Prim, weight: Any, bias: Any, mean: Any, var: Any, use_input: bool, *rest: Any
) -> Prim:
    if not use_input or mean is not None or len(x.shape) < 3:
        raise Unsupported("instance_norm with running statistics")
    even = _normalised(b, x, list(range(2, len(x.shape))), float(rest[1]))
    rank = len(x.shape)
    return _affine(b, even, _per_channel(b, weight, rank), _per_channel(b, bias, rank), x.dtype)


@handles("batch_norm")
def batch_norm(
    b: Builder,
    node: OpNode,
    x: Prim,
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    train: bool,
    _: float,
    eps: float,
    *__: Any,
) -> Prim:
    if train or mean is None:
        raise Unsupported("batch_norm in train mode")
    rank = len(x.shape)
    distance = b.point("sub", x, _per_channel(b, mean, rank))
    scale = b.point("rsqrt", b.point("add", _per_channel(b, var, rank), float(eps)))
    return _affine(
        b, b.point("mul", distance, scale), _per_channel(b, weight, rank), _per_channel(b, bias, rank), x.dtype
    )
