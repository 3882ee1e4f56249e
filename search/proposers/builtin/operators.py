"""ATen element-wise operators, reductions and normalisations as primitives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from judge.values.graph import OpNode
from search.proposers.builtin.program import FLOATS, Builder, Prim, Size, Unsupported, product

Handler = Callable[..., Any]
HANDLERS: dict[str, Handler] = {}


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Registers `handler(builder, node, *args, **kwargs)` for ATen names without their overload."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[f"aten.{name}"] = handler
        return handler

    return register


UNARY = (
    *("neg", "abs", "exp", "exp2", "log", "log2", "log1p", "expm1", "sqrt", "rsqrt", "reciprocal", "square", "sin"),
    *("cos", "floor", "ceil", "erf", "tanh", "sigmoid", "relu", "silu", "mish", "hardswish", "hardsigmoid"),
)


def _unary(op: str) -> Handler:
    def lower(b: Builder, node: OpNode, x: Prim) -> Prim:
        if b.dtype not in FLOATS and op not in {"neg"}:
            raise Unsupported(f"{op} on {x.dtype}")
        return b.result(op, x)

    return lower


for _op in UNARY:
    HANDLERS[f"aten.{_op}"] = _unary(_op)
HANDLERS["aten.log_sigmoid"] = _unary("logsigmoid")


def _with_defaults(op: str, *defaults: float) -> Handler:
    """An operator of one tensor and plain numbers."""

    def lower(b: Builder, node: OpNode, x: Prim, *given: float) -> Prim:
        return b.result(op, x, *map(float, (*given, *defaults[len(given) :])))

    return lower


for _op, _defaults in {"softplus": (1, 20), "leaky_relu": (0.01,), "elu": (1, 1, 1), "softsign": ()}.items():
    HANDLERS[f"aten.{_op}"] = _with_defaults(_op, *_defaults)
HANDLERS["aten.selu"] = _with_defaults("elu", 1.6732632423543772, 1.0507009873554805, 1.0)


@handles("celu")
def celu(b: Builder, node: OpNode, x: Prim, alpha: float = 1.0) -> Prim:
    return b.result("elu", x, float(alpha), 1.0, 1.0 / float(alpha))


@handles("add", "sub", "rsub")
def add(b: Builder, node: OpNode, x: Any, y: Any, alpha: Any = 1) -> Prim:
    dtype = b.dtype
    if node.op.startswith("aten.rsub"):
        x, y = y, x
        if alpha != 1:
            x = b.point("mul", x, alpha, dtype=dtype) if isinstance(x, Prim) else x * alpha
        alpha = 1
    if alpha != 1:
        y = b.point("mul", y, alpha, dtype=dtype) if isinstance(y, Prim) else y * alpha
    return b.point("add" if node.op.startswith("aten.add") else "sub", x, y, dtype=dtype)


def _of_width(b: Builder, x: Any, y: Any) -> Any:
    """A factor that is a power -1/2 or 1/2 of the product's depth K is that power, whatever K the module runs with."""
    if not isinstance(x, Prim) or not isinstance(y, float) or x.kind != "matmul":
        return y
    left = b.prims[x.refs()[0]]
    for power in (-0.5, 0.5):
        if left.shape[-1] > 1 and abs(y - left.shape[-1] ** power) <= 1e-12 * y:
            return Size(f"({left.sym[-1]}) ** {power}")
    return y


@handles("mul", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "true_divide")
def binary(b: Builder, node: OpNode, x: Any, y: Any) -> Prim:
    op = node.op.split(".")[1]
    return b.result("div" if op == "true_divide" else op, x, _of_width(b, x, y))


@handles("div")
def div(b: Builder, node: OpNode, x: Any, y: Any, rounding_mode: Any = None) -> Prim:
    if rounding_mode is not None:
        raise Unsupported("rounding division")
    return b.result("div", x, _of_width(b, x, y))


@handles("logical_and", "bitwise_and", "logical_or", "bitwise_or", "logical_not", "bitwise_not", "__and__", "__or__")
def logic(b: Builder, node: OpNode, *operands: Prim) -> Prim:
    if any(not isinstance(item, Prim) or item.dtype != "bool" for item in operands):
        raise Unsupported(f"{node.op} on something other than bool tensors")
    return b.point(node.op.split(".")[1].strip("_").split("_")[-1], *operands, dtype="bool")


@handles("pow")
def power(b: Builder, node: OpNode, x: Any, exponent: Any) -> Prim:
    dtype = b.dtype
    if not isinstance(x, Prim) or isinstance(exponent, Prim) or dtype not in FLOATS:
        raise Unsupported("pow with a tensor exponent")
    simple = {1: "copy", 2: "square", 3: "square3", 4: "square4", 0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}
    if exponent in simple:
        return b.point(simple[exponent], x, dtype=dtype)
    if float(exponent).is_integer():
        raise Unsupported(f"pow {exponent}: negative bases need exact powers")
    return b.point("pow", x, float(exponent), dtype=dtype)


@handles("gelu")
def gelu(b: Builder, node: OpNode, x: Prim, approximate: str = "none") -> Prim:
    return b.result("gelu_tanh" if approximate == "tanh" else "gelu", x)


@handles("prelu")
def prelu(b: Builder, node: OpNode, x: Prim, weight: Prim) -> Prim:
    weight = b.reshape(weight, (1,), ("1",)) if weight.numel == 1 else _per_channel(b, weight, x)
    return b.result("leaky_relu", x, weight)


@handles("clamp", "hardtanh", "clip")
def clamp(b: Builder, node: OpNode, x: Prim, low: Any = None, high: Any = None, **named: Any) -> Prim:
    low, high = named.get("min", low), named.get("max", high)
    if node.op.startswith("aten.hardtanh"):
        low = named.get("min_val", -1.0 if low is None else low)
        high = named.get("max_val", 1.0 if high is None else high)
    dtype = b.dtype
    if low is not None:
        x = b.point("clamp_min", x, low, dtype=dtype)
    return x if high is None else b.point("clamp_max", x, high, dtype=dtype)


@handles("clamp_min", "clamp_max")
def clamp_one(b: Builder, node: OpNode, x: Prim, bound: Any) -> Prim:
    return b.result(node.op.split(".")[1], x, bound)


@handles("relu6")
def relu6(b: Builder, node: OpNode, x: Prim) -> Prim:
    return b.result("clamp_max", b.point("clamp_min", x, 0.0), 6.0)


@handles("threshold")
def threshold(b: Builder, node: OpNode, x: Prim, limit: float, value: float) -> Prim:
    below = b.point("le", x, limit, dtype="bool")
    return b.result("where", below, value, x)


@handles("where")
def where(b: Builder, node: OpNode, condition: Prim, x: Any, y: Any) -> Prim:
    if condition.dtype != "bool":
        raise Unsupported("where with a condition that is not bool")
    return b.result("where", condition, x, y)


@handles("masked_fill")
def masked_fill(b: Builder, node: OpNode, x: Prim, mask: Prim, value: Any) -> Prim:
    return b.result("where", mask, value, x)


@handles("lerp")
def lerp(b: Builder, node: OpNode, x: Prim, y: Prim, weight: Any) -> Prim:
    return b.result("add", x, b.point("mul", b.point("sub", y, x), weight))


@handles("addcmul", "addcdiv")
def addcmul(b: Builder, node: OpNode, x: Prim, y: Prim, z: Prim, value: float = 1) -> Prim:
    inner = b.point("mul" if "mul" in node.op else "div", y, z)
    inner = inner if value == 1 else b.point("mul", inner, value)
    return b.result("add", x, inner)


@handles("to", "_to_copy", "type_as", "float", "half", "bfloat16")
def cast(b: Builder, node: OpNode, x: Prim, *_: Any, **__: Any) -> Prim:
    dtype = b.dtype
    if dtype == x.dtype:
        return x
    if dtype in {"float16", "bfloat16"}:
        return b.point(dtype, x, dtype=dtype)
    if dtype == "float32":
        return b.point("float", x, dtype=dtype)
    raise Unsupported(f"cast from {x.dtype} to {dtype}")


@handles("dropout", "feature_dropout", "alpha_dropout", "native_dropout")
def dropout(b: Builder, node: OpNode, x: Prim, p: float, train: bool) -> Prim:
    if train and p > 0:
        raise Unsupported("dropout in train mode")
    return x


def axes(x: Prim, dims: Any) -> list[int]:
    """Dimensions as a sorted list; None and [] mean all."""
    if dims is None or dims == []:
        return list(range(len(x.shape)))
    chosen = [dims] if isinstance(dims, int) else list(dims)
    return sorted(d % max(len(x.shape), 1) for d in chosen)


def worth_fusing(x: Prim, dims: list[int]) -> None:
    """Few, very long rows starve a one-program-per-row kernel: torch splits those over the device."""
    length = math.prod(x.shape[d] for d in dims)
    rows = x.numel // max(length, 1)
    if rows < 16 and length > 65536:
        raise Unsupported(f"{rows} rows of {length} elements are better split over the device by torch")


@handles("sum", "mean", "amax", "amin")
def simple(b: Builder, node: OpNode, x: Prim, dims: Any = None, keepdim: bool = False, **_: Any) -> Prim:
    dtype, where = b.dtype, axes(x, dims)
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
    squares = b.point("square", b.point("sub", x, b.mean(x, where, keepdim=True)))
    total = b.reduce("sum", squares, where, keepdim=keepdim)
    count = Size(f"({b.count_of(x, where).text}) - {1 if correction is None else int(correction)}")
    last = "sqrt" if node.op.startswith("aten.std") else "copy"
    return b.result(last, b.point("div", total, count))


@handles("linalg_vector_norm", "norm")
def vector_norm(b: Builder, node: OpNode, x: Prim, order: Any = 2, dims: Any = None, *rest: Any, **named: Any) -> Prim:
    where = axes(x, dims)
    worth_fusing(x, where)
    keepdim = bool(rest[0] if rest else named.get("keepdim", False))
    dtype = b.dtype
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
        return b.result("sub", shifted, b.point("log", total))
    return b.result("div", raised, total)


@handles("logsumexp")
def logsumexp(b: Builder, node: OpNode, x: Prim, dims: Any, keepdim: bool = False) -> Prim:
    where = axes(x, dims)
    worth_fusing(x, where)
    top = b.point("finite_or_zero", b.reduce("max", x, where, keepdim=True))
    total = b.reduce("sum", b.point("exp", b.point("sub", x, top)), where, keepdim=True)
    whole = b.result("add", b.point("log", total), top)
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
    return _affine(b, b.point("mul", x, scale), weight, None, b.dtype)


def _per_channel(b: Builder, value: Prim, x: Prim) -> Prim:
    """(C,) as (C, 1, 1, ...), so that it broadcasts along dimension 1 of x."""
    ones = len(x.shape) - 2
    return b.reshape(value, value.shape + (1,) * ones, value.sym + ("1",) * ones)


def _affine_per_channel(b: Builder, even: Prim, weight: Prim | None, bias: Prim | None, x: Prim) -> Prim:
    """`even`, of the shape of x, times weight plus bias of each channel."""
    weight, bias = (value and _per_channel(b, value, x) for value in (weight, bias))
    return _affine(b, even, weight, bias, x.dtype)


@handles("group_norm")
def group_norm(
    b: Builder, node: OpNode, x: Prim, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any
) -> Prim:
    batch, channels = x.shape[0], x.shape[1]
    length = x.numel // (batch * groups)
    sym = (x.sym[0], str(groups), f"({product(x.sym[1:])}) // {groups}")
    rows = b.reshape(x, (batch, groups, length), sym)
    even = b.reshape(_normalised(b, rows, [2], eps), x.shape, x.sym)
    if channels == 1:
        raise Unsupported("group_norm of one channel")
    return _affine_per_channel(b, even, weight, bias, x)


@handles("instance_norm")
def instance_norm(
    b: Builder, node: OpNode, x: Prim, weight: Any, bias: Any, mean: Any, var: Any, use_input: bool, *rest: Any
) -> Prim:
    if not use_input or mean is not None or len(x.shape) < 3:
        raise Unsupported("instance_norm with running statistics")
    even = _normalised(b, x, list(range(2, len(x.shape))), float(rest[1]))
    return _affine_per_channel(b, even, weight, bias, x)


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
    distance = b.point("sub", x, _per_channel(b, mean, x))
    scale = b.point("rsqrt", b.point("add", _per_channel(b, var, x), float(eps)))
    return _affine_per_channel(b, b.point("mul", distance, scale), weight, bias, x)
