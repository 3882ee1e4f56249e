"""ATen element-wise operators as primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from judge.values.graph import OpNode
from search.proposers.builtin.builder import Builder
from search.proposers.builtin.ir import FLOATS, Prim, Size, Unsupported

Handler = Callable[..., Any]
HANDLERS: dict[str, Handler] = {}


def handles(*names: str) -> Callable[[Handler], Handler]:
    """Registers `handler(builder, node, *args, **kwargs)` for ATen names without their overload."""

    def register(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[f"aten.{name}"] = handler
        return handler

    return register


def result_dtype(node: OpNode) -> str:
    if node.out is None:
        raise Unsupported(f"{node.op} has no tensor result")
    return node.out.dtype


UNARY = (
    *("neg", "abs", "exp", "exp2", "log", "log2", "log1p", "expm1", "sqrt", "rsqrt", "reciprocal", "square", "sin"),
    *("cos", "floor", "ceil", "erf", "tanh", "sigmoid", "relu", "silu", "mish", "hardswish", "hardsigmoid"),
)


def _unary(op: str) -> Handler:
    def lower(b: Builder, node: OpNode, x: Prim) -> Prim:
        if result_dtype(node) not in FLOATS and op not in {"neg"}:
            raise Unsupported(f"{op} on {x.dtype}")
        return b.point(op, x, dtype=result_dtype(node))

    return lower


for _op in UNARY:
    HANDLERS[f"aten.{_op}"] = _unary(_op)
HANDLERS["aten.log_sigmoid"] = _unary("logsigmoid")


@handles("add", "sub", "rsub")
def add(b: Builder, node: OpNode, x: Any, y: Any, alpha: Any = 1) -> Prim:
    dtype = result_dtype(node)
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
    return b.point("div" if op == "true_divide" else op, x, _of_width(b, x, y), dtype=result_dtype(node))


@handles("div")
def div(b: Builder, node: OpNode, x: Any, y: Any, rounding_mode: Any = None) -> Prim:
    if rounding_mode is not None:
        raise Unsupported("rounding division")
    return b.point("div", x, _of_width(b, x, y), dtype=result_dtype(node))


@handles("logical_and", "bitwise_and", "logical_or", "bitwise_or", "logical_not", "bitwise_not", "__and__", "__or__")
def logic(b: Builder, node: OpNode, *operands: Prim) -> Prim:
    if any(not isinstance(item, Prim) or item.dtype != "bool" for item in operands):
        raise Unsupported(f"{node.op} on something other than bool tensors")
    return b.point(node.op.split(".")[1].strip("_").split("_")[-1], *operands, dtype="bool")


@handles("pow")
def power(b: Builder, node: OpNode, x: Any, exponent: Any) -> Prim:
    dtype = result_dtype(node)
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
    return b.point("gelu_tanh" if approximate == "tanh" else "gelu", x, dtype=result_dtype(node))


@handles("softplus")
def softplus(b: Builder, node: OpNode, x: Prim, beta: float = 1, threshold: float = 20) -> Prim:
    return b.point("softplus", x, float(beta), float(threshold), dtype=result_dtype(node))


@handles("leaky_relu")
def leaky_relu(b: Builder, node: OpNode, x: Prim, slope: float = 0.01) -> Prim:
    return b.point("leaky_relu", x, float(slope), dtype=result_dtype(node))


@handles("prelu")
def prelu(b: Builder, node: OpNode, x: Prim, weight: Prim) -> Prim:
    if weight.numel == 1:
        weight = b.reshape(weight, (1,), ("1",))
    else:
        after = len(x.shape) - 2
        weight = b.reshape(weight, weight.shape + (1,) * after, weight.sym + ("1",) * after)
    return b.point("leaky_relu", x, weight, dtype=result_dtype(node))


@handles("elu")
def elu(b: Builder, node: OpNode, x: Prim, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Prim:
    return b.point("elu", x, float(alpha), float(scale), float(input_scale), dtype=result_dtype(node))


@handles("celu")
def celu(b: Builder, node: OpNode, x: Prim, alpha: float = 1.0) -> Prim:
    return b.point("elu", x, float(alpha), 1.0, 1.0 / float(alpha), dtype=result_dtype(node))


@handles("selu")
def selu(b: Builder, node: OpNode, x: Prim) -> Prim:
    return b.point("elu", x, 1.6732632423543772, 1.0507009873554805, 1.0, dtype=result_dtype(node))


@handles("softsign")
def softsign(b: Builder, node: OpNode, x: Prim) -> Prim:
    return b.point("softsign", x, dtype=result_dtype(node))


@handles("clamp", "hardtanh", "clip")
def clamp(b: Builder, node: OpNode, x: Prim, low: Any = None, high: Any = None, **named: Any) -> Prim:
    low, high = named.get("min", low), named.get("max", high)
    if node.op.startswith("aten.hardtanh"):
        low = named.get("min_val", -1.0 if low is None else low)
        high = named.get("max_val", 1.0 if high is None else high)
    dtype = result_dtype(node)
    if low is not None:
        x = b.point("clamp_min", x, low, dtype=dtype)
    return x if high is None else b.point("clamp_max", x, high, dtype=dtype)


@handles("clamp_min", "clamp_max")
def clamp_one(b: Builder, node: OpNode, x: Prim, bound: Any) -> Prim:
    return b.point(node.op.split(".")[1], x, bound, dtype=result_dtype(node))


@handles("relu6")
def relu6(b: Builder, node: OpNode, x: Prim) -> Prim:
    return b.point("clamp_max", b.point("clamp_min", x, 0.0), 6.0, dtype=result_dtype(node))


@handles("threshold")
def threshold(b: Builder, node: OpNode, x: Prim, limit: float, value: float) -> Prim:
    below = b.point("le", x, limit, dtype="bool")
    return b.point("where", below, value, x, dtype=result_dtype(node))


@handles("where")
def where(b: Builder, node: OpNode, condition: Prim, x: Any, y: Any) -> Prim:
    if condition.dtype != "bool":
        raise Unsupported("where with a condition that is not bool")
    return b.point("where", condition, x, y, dtype=result_dtype(node))


@handles("masked_fill")
def masked_fill(b: Builder, node: OpNode, x: Prim, mask: Prim, value: Any) -> Prim:
    return b.point("where", mask, value, x, dtype=result_dtype(node))


@handles("lerp")
def lerp(b: Builder, node: OpNode, x: Prim, y: Prim, weight: Any) -> Prim:
    return b.point("add", x, b.point("mul", b.point("sub", y, x), weight), dtype=result_dtype(node))


@handles("addcmul", "addcdiv")
def addcmul(b: Builder, node: OpNode, x: Prim, y: Prim, z: Prim, value: float = 1) -> Prim:
    inner = b.point("mul" if "mul" in node.op else "div", y, z)
    inner = inner if value == 1 else b.point("mul", inner, value)
    return b.point("add", x, inner, dtype=result_dtype(node))


@handles("to", "_to_copy", "type_as", "float", "half", "bfloat16")
def cast(b: Builder, node: OpNode, x: Prim, *_: Any, **__: Any) -> Prim:
    dtype = result_dtype(node)
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
