"""What generated kernels are written with: the expression table, arguments, tiles, launches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from search.proposers.builtin.plans import Group, Layout, Plan
from search.proposers.builtin.program import FLOATS, INTEGERS, Prim, Ref, Shape, Size, product

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


@dataclass
class Arguments:
    """Kernel parameters in order, each with the host expression that fills it."""

    pointers: dict[str, str] = field(default_factory=dict)  # prim name -> parameter
    outputs: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, str] = field(default_factory=dict)  # host expression -> parameter

    def pointer(self, prim: Prim) -> str:
        return self.pointers.setdefault(prim.name, f"in{len(self.pointers)}_ptr")

    def output(self, prim: Prim) -> str:
        return self.outputs.setdefault(prim.name, f"out{len(self.outputs)}_ptr")

    def number(self, text: str) -> str:
        """The parameter for a run-time size; plain literals stay in the code."""
        if text.isdigit():
            return text
        return self.numbers.setdefault(text, f"n{len(self.numbers)}")

    def parameters(self) -> list[str]:
        return [*self.pointers.values(), *self.outputs.values(), *self.numbers.values()]


@dataclass(frozen=True)
class Axes:
    """How a tile addresses elements: `lin` is the linear offset; rows and cols exist unless the tile is flat.

    `trailing`: lin = rows * N + cols, with `columns` = N as traced.
    """

    full_mask: str = "ok"
    row_mask: str = "row_ok"
    col_mask: str = "col_ok"
    flat: bool = False
    trailing: bool = True
    columns: int = 1


def class_of(dtype: str) -> str:
    return "float" if dtype in FLOATS else "int" if dtype in INTEGERS else "bool"


class Tile:
    """Writes the values of a group's members for one tile. `lines` grows; values are cached per region of code."""

    def __init__(self, layout: Layout, group: Group, arguments: Arguments, axes: Axes, evict: str = "") -> None:
        self.prims, self.floating = layout.program.prims, layout.floating
        self.group, self.arguments, self.axes, self.evict = group, arguments, axes, evict
        self.lines: list[str] = []
        self.outer: dict[Any, Operand] = {}  # valid to the end of the kernel
        self.inner: dict[Any, Operand] = {}  # valid inside the current loop
        self.looping = False
        self.count = 0

    def remember(self, key: Any, operand: Operand) -> Operand:
        (self.inner if self.looping else self.outer)[key] = operand
        return operand

    def known(self, key: Any) -> Operand | None:
        return self.inner.get(key) or self.outer.get(key)

    def assign(self, stem: str, text: str) -> str:
        self.count += 1
        name = f"{stem}{self.count}"
        self.lines.append(f"{name} = {text}")
        return name

    def member(self, name: str) -> Operand:
        """The value of a member, written on first use. Reductions must have been written before in a loop."""
        seen = self.known(name)
        if seen is not None:
            return seen
        prim = self.prims[name]
        scope = self.group.scopes[name]
        if prim.kind == "reduce":
            return self.remember(name, self._reduce_once(prim))
        if prim.kind == "reshape":
            return self.remember(name, self.operand(prim.args[0], prim, scope))
        return self.remember(name, self._apply(prim, prim, scope))

    def _apply(self, prim: Prim, consumer: Prim, scope: str) -> Operand:
        operands = [self.operand(arg, consumer, scope) for arg in prim.args]
        kind = class_of(prim.dtype)
        if prim.op == "copy" and operands[0].kind == kind:
            return operands[0]
        return Operand(self.assign("v", expression(prim.op, operands, kind)), kind)

    def operand(self, arg: Any, consumer: Prim, scope: str) -> Operand:
        if isinstance(arg, Size):
            return Operand(self.arguments.number(arg.text), "number")
        if not isinstance(arg, Ref):
            return literal(arg)
        if arg.name in self.group.scopes:
            return self.member(arg.name)
        prim = self.prims[arg.name]
        if arg.name in self.floating:
            key = (arg.name, consumer.shape, scope)
            return self.known(key) or self.remember(key, self._apply(prim, consumer, scope))
        return self.load(prim, consumer, scope)

    def reduction_input(self, prim: Prim) -> Operand:
        """The full-scope operand of a reduction."""
        ref = prim.args[0]
        if ref.name in self.group.scopes:
            return self.member(ref.name)
        return self.load(self.prims[ref.name], self.prims[ref.name], "full")

    def _reduce_once(self, prim: Prim) -> Operand:
        value = self.reduction_input(prim)
        kept = f"tl.where({self.axes.full_mask}, {value.text}, {IDENTITY[prim.op]})"
        return Operand(self.assign("r", f"tl.{prim.op}({kept}, axis=1, keep_dims=True)"), "float")

    # loads

    def load(self, prim: Prim, consumer: Prim, scope: str) -> Operand:
        """An external tensor as seen by `consumer`, whose shape it broadcasts to."""
        offset, mask = self.address(prim, consumer, scope)
        key = ("load", prim.name, offset)
        seen = self.known(key)
        if seen is not None:
            return seen
        pointer = self.arguments.pointer(prim)
        hint = f', eviction_policy="{self.evict}"' if self.evict and offset == "lin" else ""
        text = f"tl.load({pointer})" if offset == "0" else f"tl.load({pointer} + {offset}, mask={mask}, other=0{hint})"
        kind = class_of(prim.dtype)
        if prim.dtype in FLOATS and prim.dtype != "float32":
            text += ".to(tl.float32)"
        return self.remember(key, Operand(self.assign("x", text), kind))

    def address(self, prim: Prim, consumer: Prim, scope: str) -> tuple[str, str]:
        """Offset and mask of an operand: linear, per row, per column, or picked out of the linear index."""
        shape, sym = consumer.shape, consumer.sym
        own = (1,) * (len(shape) - len(prim.shape)) + prim.shape
        spans = [d for d in range(len(shape)) if own[d] != 1 and shape[d] != 1]
        wide = [d for d in range(len(shape)) if shape[d] != 1]
        whole = "rows" if scope == "row" else "lin"
        mask = self.axes.row_mask if scope == "row" else self.axes.full_mask
        if prim.numel == 1:
            return "0", ""
        if spans == wide:
            return whole, mask
        if scope == "full" and not self.axes.flat and self.axes.trailing:
            split = split_at(shape, self.axes.columns)
            if split is not None:
                return self._by_axis(shape, sym, spans, split)
        return self._pick(whole, shape, sym, spans), mask

    def _by_axis(self, shape: Shape, sym: Sequence[str], spans: list[int], split: int) -> tuple[str, str]:
        """An offset from rows and columns apart: index arithmetic on vectors, not on the whole tile."""
        high = [d for d in spans if d < split]
        low = [d - split for d in spans if d >= split]
        rows = self._pick("rows", shape[:split], sym[:split], high) if high else ""
        cols = self._pick("cols", shape[split:], sym[split:], low) if low else ""
        if not cols:
            return rows, self.axes.row_mask
        if not rows:
            return cols, self.axes.col_mask
        stride = self.arguments.number(product([sym[d] for d in spans if d >= split]))
        return f"({rows} * {stride} + {cols})", self.axes.full_mask

    def _pick(self, index: str, shape: Shape, sym: Sequence[str], spans: list[int]) -> str:
        """The offset into a contiguous tensor that has only the dimensions `spans` of `shape`."""
        runs: list[tuple[int, int]] = []
        wide = [d for d in range(len(shape)) if shape[d] != 1]
        for d in spans:
            before = [e for e in wide if e < d]
            if runs and before and before[-1] == runs[-1][1]:
                runs[-1] = (runs[-1][0], d)
            else:
                runs.append((d, d))
        if spans == wide:
            return index
        terms = []
        for at, (first, last) in enumerate(runs):
            term = index
            after = product(sym[last + 1 :])
            if any(d > last for d in wide):
                term = f"({term} // {self.arguments.number(after)})"
            if any(d < first for d in wide):
                term = f"({term} % {self.arguments.number(product(sym[first : last + 1]))})"
            stride = product([sym[d] for low, high in runs[at + 1 :] for d in range(low, high + 1)])
            terms.append(term if at == len(runs) - 1 else f"{term} * {self.arguments.number(stride)}")
        return " + ".join(terms) if len(terms) == 1 else f"({' + '.join(terms)})"

    def store(self, prim: Prim) -> None:
        """Writes a member's value to its output."""
        value = self.member(prim.name)
        scope = self.group.scopes[prim.name]
        offset, mask = ("rows", self.axes.row_mask) if scope == "row" else ("lin", self.axes.full_mask)
        self.lines.append(f"tl.store({self.arguments.output(prim)} + {offset}, {value.text}, mask={mask})")


IDENTITY = {"sum": "0.0", "max": '-float("inf")', "min": 'float("inf")'}


def split_at(shape: Shape, columns: int) -> int | None:
    """How many leading dimensions the rows cover, when the trailing ones make up `columns` elements."""
    size = 1
    for at in range(len(shape), -1, -1):
        if size == columns:
            return at
        if at:
            size *= shape[at - 1]
    return None


def power_of_two(size: int) -> int:
    return 1 << max(0, size - 1).bit_length()


def striding(grid: str, lines: list[str], tiles: str) -> list[str]:
    """One tile per program, or a grid of fixed size whose programs walk over the tiles."""
    if grid == "stride":
        return [f"for tile in range(tl.program_id(0), {tiles}, tl.num_programs(0)):", *indent(lines)]
    return ["tile = tl.program_id(0)", *lines]


def config(sizes: dict[str, Any], **options: int) -> str:
    """An entry of an autotuner's list."""
    shown = ", ".join(f'"{name}": {value}' for name, value in sizes.items())
    return f"triton.Config({{{shown}}}, {', '.join(f'{name}={value}' for name, value in options.items())})"


def launch_grid(tiles: str, numbers: dict[str, str], constants: dict[str, Any] | None, plan: Plan) -> str:
    """The launch grid of so many tiles; names of tile sizes are replaced by their values, or (constants None) read from
    the chosen configuration."""
    text = tiles.replace("tl.cdiv", "triton.cdiv")
    for name, size in numbers.items():
        text = text.replace(f"({name},", f"({size},")
    for name in ("BLOCK", "ROWS", "COLS"):
        size = f'meta["{name}"]' if constants is None else constants.get(name, "")
        text = text.replace(f", {name})", f", {size})")
    if plan.grid == "stride":
        text = f"_resident({text}, {plan.waves})"
    return f"lambda meta: ({text},)" if constants is None else f"({text},)"


def note_of(layout: Layout, group: Group) -> str:
    operators = dict.fromkeys(layout.program.prims[name].attrs.get("node", name) for name in group.members)
    return f"Fused: {', '.join(operators)}."


@dataclass(frozen=True)
class Written:
    """`kernel` is module-level source; `launch` the lines of forward, without indentation."""

    kernel: str
    launch: list[str]


def indent(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def function(name: str, parameters: list[str], body: list[str], *, note: str, configs: Sequence[str] = ()) -> str:
    """Source of a Triton kernel. `configs` are autotune entries; the key is every run-time number."""
    head = []
    if configs:
        keys = [repr(item) for item in parameters if ":" not in item and not item.endswith("_ptr")]
        head = ["@triton.autotune(", "    configs=["]
        head += [f"        {item}," for item in dict.fromkeys(configs)]
        head += ["    ],", f"    key=[{', '.join(keys)}],", ")"]
    return "\n".join(
        [*head, "@triton.jit", f"def {name}({', '.join(parameters)}):", f'    """{note}"""', *indent(body), ""]
    )


def allocate(stored: list[Prim], like: str) -> list[str]:
    """Host lines that create the outputs. `like` is the expression of a tensor on the right device."""
    lines = []
    for prim in stored:
        sizes = ", ".join(prim.sym)
        shape = f"({sizes},)" if len(prim.sym) == 1 else f"({sizes})"
        lines.append(f"t_{prim.name} = torch.empty({shape}, dtype=torch.{prim.dtype}, device={like}.device)")
    return lines


def call(name: str, grid: str, arguments: Arguments, extra: list[str], names: dict[str, str]) -> list[str]:
    """Host lines of a launch. `names` maps a primitive to the host expression of its contiguous tensor."""
    values = [names[prim] for prim in arguments.pointers]
    values += [f"t_{prim}" for prim in arguments.outputs]
    values += list(arguments.numbers)
    return [f"{name}[{grid}](", *indent([f"{item}," for item in [*values, *extra]]), ")"]


def big(count: str) -> str:
    """Whether offsets need 64 bits."""
    return f"({count}) >= 2**31"
