"""The expression table: primitive element-wise operations as Triton source, computed in fp32 without libdevice."""

from __future__ import annotations

from dataclasses import dataclass

# {0}, {1}, ... are names or literals, never compound expressions.
POINT: dict[str, str] = {
    "copy": "{0}",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "neg": "-{0}",
    "abs": "tl.abs({0})",
    "exp": "tl.exp({0})",
    "exp2": "tl.exp2({0})",
    "log": "tl.log({0})",
    "log2": "tl.log2({0})",
    "log1p": "_log1p({0})",
    "expm1": "_expm1({0})",
    "sqrt": "tl.sqrt({0})",
    "rsqrt": "1.0 / tl.sqrt({0})",
    "reciprocal": "1.0 / {0}",
    "square": "{0} * {0}",
    "sin": "tl.sin({0})",
    "cos": "tl.cos({0})",
    "floor": "tl.floor({0})",
    "ceil": "tl.ceil({0})",
    "erf": "tl.erf({0})",
    "tanh": "_tanh({0})",
    "sigmoid": "1.0 / (1.0 + tl.exp(-{0}))",
    "relu": "tl.where({0} < 0.0, 0.0, {0})",
    "silu": "{0} / (1.0 + tl.exp(-{0}))",
    "gelu": "0.5 * {0} * (1.0 + tl.erf({0} * 0.7071067811865476))",
    "gelu_tanh": "0.5 * {0} * (1.0 + _tanh(0.7978845608028654 * ({0} + 0.044715 * {0} * {0} * {0})))",
    "softplus": "tl.where({0} * {1} > {2}, {0}, _log1p(tl.exp(tl.where({0} * {1} > {2}, 0.0, {0} * {1}))) / {1})",
    "mish": "{0} * _tanh(tl.where({0} > 20.0, {0}, _log1p(tl.exp(tl.where({0} > 20.0, 0.0, {0})))))",
    "hardswish": "{0} * tl.where({0} < -3.0, 0.0, tl.where({0} > 3.0, 6.0, {0} + 3.0)) / 6.0",
    "hardsigmoid": "tl.where({0} < -3.0, 0.0, tl.where({0} > 3.0, 6.0, {0} + 3.0)) / 6.0",
    "leaky_relu": "tl.where({0} > 0.0, {0}, {0} * {1})",
    "elu": "tl.where({0} > 0.0, {0} * {2}, _expm1(tl.where({0} > 0.0, 0.0, {0} * {3})) * ({1} * {2}))",
    "softsign": "{0} / (1.0 + tl.abs({0}))",
    "logsigmoid": "tl.where({0} < 0.0, {0}, 0.0) - _log1p(tl.exp(-tl.abs({0})))",
    "clamp_min": "tl.where({0} < {1}, {1}, {0})",
    "clamp_max": "tl.where({0} > {1}, {1}, {0})",
    "maximum": "tl.where(({0} > {1}) | ({0} != {0}), {0}, {1})",
    "minimum": "tl.where(({0} < {1}) | ({0} != {0}), {0}, {1})",
    "where": "tl.where({0}, {1}, {2})",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "not": "{0} == 0",
    "square3": "{0} * {0} * {0}",
    "square4": "({0} * {0}) * ({0} * {0})",
    "pow": "tl.exp({1} * tl.log({0}))",
    "finite_or_zero": 'tl.where(tl.abs({0}) == float("inf"), 0.0, {0})',
    "float": "{0}.to(tl.float32)",
    "float16": "{0}.to(tl.float16).to(tl.float32)",
    "bfloat16": "{0}.to(tl.bfloat16).to(tl.float32)",
}

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
# Operations that work on integers as they are; everything else is computed in fp32.
INTEGER_SAFE = frozenset({"copy", "add", "sub", "mul", "neg", "where", "maximum", "minimum", "clamp_min", "clamp_max"})

DEVICE_FUNCTIONS: dict[str, str] = {
    "_tanh": '''@triton.jit
def _tanh(x):
    """tanh to fp32 accuracy: a series near zero, where the exponential form cancels."""
    a = tl.abs(x)
    e = tl.exp(-2.0 * a)
    far = (1.0 - e) / (1.0 + e)
    s = x * x
    p = 0.021869488536155203 + s * (-0.008863235529902197 + s * 0.003592128036572481)
    p = -0.3333333333333333 + s * (0.13333333333333333 + s * (-0.05396825396825397 + s * p))
    near = x + x * s * p
    return tl.where(a < 0.4, near, tl.where(x < 0.0, -far, far))
''',
    "_log1p": '''@triton.jit
def _log1p(x):
    """log(1 + x), x > -1; keeps small x (the rounding of 1 + x is divided out)."""
    u = 1.0 + x
    same = u == 1.0
    return tl.where(same, x, tl.log(u) * (x / tl.where(same, 1.0, u - 1.0)))
''',
    "_expm1": '''@triton.jit
def _expm1(x):
    """exp(x) - 1; a series near zero, where the difference cancels."""
    p = 1.0 + x * 0.14285714285714285
    p = 1.0 + x * 0.16666666666666666 * p
    p = 1.0 + x * 0.2 * p
    p = 1.0 + x * 0.25 * p
    p = 1.0 + x * 0.3333333333333333 * p
    p = 1.0 + x * 0.5 * p
    return tl.where(tl.abs(x) < 0.3, x * p, tl.exp(x) - 1.0)
''',
}


@dataclass(frozen=True)
class Operand:
    """A kernel-side operand: its text and its class, "float", "int", "bool" or "number" (a literal)."""

    text: str
    kind: str


def literal(value: float | int | bool) -> Operand:
    """A Python number as kernel source."""
    if isinstance(value, float):
        if value != value:
            return Operand('float("nan")', "number")
        if value in (float("inf"), float("-inf")):
            return Operand('float("inf")' if value > 0 else '(-float("inf"))', "number")
        return Operand(f"({value!r})" if value < 0 else repr(value), "number")
    if isinstance(value, bool):
        return Operand("1" if value else "0", "number")
    return Operand(f"({value})" if value < 0 else str(value), "number")


def expression(op: str, operands: list[Operand], result: str) -> str:
    """Source of one operation whose result has class `result` ("float", "int", "bool")."""
    floats = result == "float" and op not in {"where"}
    if op in COMPARISONS:
        floats = any(item.kind == "float" for item in operands) or any(
            item.kind == "number" and not item.text.strip("()-").isdigit() for item in operands
        )
    texts = []
    for at, item in enumerate(operands):
        condition = op == "where" and at == 0
        convert = item.kind in {"int", "bool"} and (floats or (op == "where" and result == "float")) and not condition
        texts.append(f"{item.text}.to(tl.float32)" if convert and op != "float" else item.text)
    return POINT[op].format(*texts)


def device_functions(source: str) -> list[str]:
    """The device functions that generated `source` calls, in a fixed order."""
    return [text for name, text in DEVICE_FUNCTIONS.items() if f"{name}(" in source]
