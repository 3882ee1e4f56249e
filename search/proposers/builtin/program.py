"""Primitive operations on typed values, how a program is built of them, and attention found among them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from judge.values.graph import OpNode

FLOATS = frozenset({"float32", "float16", "bfloat16"})
# Operations that work on integers as they are; everything else is computed in fp32.
INTEGER_SAFE = frozenset({"copy", "add", "sub", "mul", "neg", "where", "maximum", "minimum", "clamp_min", "clamp_max"})
INTEGERS = frozenset({"int8", "uint8", "int16", "int32", "int64"})

Shape = tuple[int, ...]


class Unsupported(Exception):
    """The graph holds something no part of this proposer can write; the message says what."""


@dataclass(frozen=True)
class Ref:
    """Another primitive's result."""

    name: str


@dataclass(frozen=True)
class Size:
    """A number known only when the module runs: a Python expression over sizes of tensors in `forward`."""

    text: str


@dataclass(frozen=True)
class Prim:
    """One primitive. `shape` is the traced one; `sym` holds a run-time expression per dimension.

    Kinds: source (input, parameter, buffer, constant; `op` is the expression that names it), point (`op` is a row of
    the expression table), reduce (sum, max, min; attrs dims, keepdim), reshape (same elements, same order), matmul,
    attention, torch (`op` is a call template for the host).
    """

    name: str
    kind: str
    op: str
    args: tuple[Any, ...]
    shape: Shape
    dtype: str
    sym: tuple[str, ...]
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    def refs(self) -> tuple[str, ...]:
        """Names of every primitive this one reads, nested lists included."""
        return tuple(_refs(self.args)) + tuple(_refs(tuple(self.attrs.values())))


def _refs(value: Any) -> list[str]:
    if isinstance(value, Ref):
        return [value.name]
    if isinstance(value, tuple | list):
        return [name for item in value for name in _refs(item)]
    if isinstance(value, dict):
        return [name for item in value.values() for name in _refs(item)]
    return []


@dataclass(frozen=True)
class Program:
    """Primitives in execution order, and the returned structure (nested Refs)."""

    prims: dict[str, Prim]
    result: Any
    arguments: tuple[str, ...]

    def users(self) -> dict[str, list[Prim]]:
        """Readers of each primitive, in order."""
        found: dict[str, list[Prim]] = {name: [] for name in self.prims}
        for prim in self.prims.values():
            for name in dict.fromkeys(prim.refs()):
                found[name].append(prim)
        return found

    def outputs(self) -> frozenset[str]:
        return frozenset(_refs(self.result))


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """The common shape, as torch broadcasts. Raises ValueError when there is none."""
    rank = max((len(shape) for shape in shapes), default=0)
    out = []
    for axis in range(rank):
        sizes = {shape[axis - rank + len(shape)] for shape in shapes if axis - rank + len(shape) >= 0} - {1}
        if len(sizes) > 1:
            raise ValueError(f"shapes do not broadcast: {list(shapes)}")
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


def broadcast_sym(shape: Shape, operands: Sequence[Prim]) -> tuple[str, ...]:
    """A run-time expression for each dimension of a broadcast result, from the first operand that spans it."""
    out = []
    for axis, size in enumerate(shape):
        text = "1"
        for prim in operands:
            at = axis - len(shape) + len(prim.shape)
            if at >= 0 and prim.shape[at] == size:
                text = prim.sym[at]
                break
        out.append(text)
    return tuple(out)


def product(texts: Sequence[str]) -> str:
    """Source text of a product; ones vanish."""
    parts = [text for text in texts if text != "1"]
    return " * ".join(parts) if parts else "1"


def reshape_sym(source: Prim, shape: Shape) -> tuple[str, ...]:
    """Run-time sizes after a reshape: dimensions that pass through keep their expression.

    Where one dimension splits, the trailing sizes stay literal and the first is what remains.
    """
    out: list[str] = []
    i = j = 0
    while j < len(shape):
        if shape[j] == 1:
            out.append("1")
            j += 1
            continue
        while i < len(source.shape) and source.shape[i] == 1:
            i += 1
        left, right, start_i, start_j = source.shape[i], shape[j], i, j
        while left != right:
            if left < right:
                i += 1
                left *= source.shape[i]
            else:
                j += 1
                right *= shape[j]
        out += _segment(source.sym[start_i : i + 1], shape[start_j : j + 1])
        i, j = i + 1, j + 1
    return tuple(out)


def _segment(sym: Sequence[str], sizes: Sequence[int]) -> list[str]:
    whole = product(sym)
    if len(sizes) == 1:
        return [whole]
    rest = math.prod(sizes[1:])
    first = f"({whole}) // {rest}" if rest != 1 else whole
    return [first, *(str(size) for size in sizes[1:])]


@dataclass(frozen=True)
class Span:
    """A run of dimensions seen as (before, run, after): [a, n, i] of a contiguous tensor is at a*N*I + n*I + i."""

    before: str
    size: str
    after: str
    trailing: bool
    key: tuple[int, int, int]


def span(prim: Prim, dims: Sequence[int]) -> Span | None:
    """The view of `dims` as one run, or None when other dimensions lie between them."""
    wide = [d for d in dims if prim.shape[d] != 1] or list(dims)
    first, last = min(wide), max(wide)
    if any(prim.shape[d] != 1 for d in range(first, last + 1) if d not in dims):
        return None
    after = math.prod(prim.shape[last + 1 :])
    return Span(
        before=product(prim.sym[:first]),
        size=product(prim.sym[first : last + 1]),
        after=product(prim.sym[last + 1 :]),
        trailing=after == 1,
        key=(math.prod(prim.shape[:first]), math.prod(prim.shape[first : last + 1]), after),
    )


FUSIBLE = FLOATS | INTEGERS | {"bool"}


class Builder:
    """Collects primitives. `at` is the graph node being lowered; its decomposition gets names derived from it."""

    def __init__(self) -> None:
        self.prims: dict[str, Prim] = {}
        self.bound: dict[str, Any] = {}  # graph node -> Prim, or a plain number
        self.at: OpNode | None = None
        self.count = 0

    # naming and reading

    def begin(self, node: OpNode) -> None:
        self.at, self.count = node, 0

    def bind(self, value: Any) -> None:
        """The result of the current node."""
        if self.at is not None:
            self.bound[self.at.name] = value

    def read(self, arg: Any) -> Any:
        """A JSON argument as a Prim, a number, None, or a list of such."""
        if isinstance(arg, dict):
            if "node" in arg:
                return self.bound[arg["node"]]
            if "repr" in arg and arg["repr"] in {"inf", "-inf", "nan"}:
                return float(arg["repr"])
            return arg
        if isinstance(arg, list | tuple):
            return [self.read(item) for item in arg]
        return arg

    def add(self, prim: Prim) -> Prim:
        self.prims[prim.name] = prim
        return prim

    def _name(self) -> str:
        assert self.at is not None
        self.count += 1
        return self.at.name if self.count == 1 else f"{self.at.name}_p{self.count}"

    def _origin(self) -> dict[str, Any]:
        return {"node": self.at.name if self.at else ""}

    # primitives

    def point(self, op: str, *args: Any, dtype: str = "float32") -> Prim:
        """An element-wise primitive over the broadcast of its operands (Prims, numbers, Sizes)."""
        operands = [self.through_expand(arg) if isinstance(arg, Prim) else arg for arg in args]
        prims = [arg for arg in operands if isinstance(arg, Prim)]
        whole = dtype in INTEGERS and op not in INTEGER_SAFE
        if whole or not prims or any(prim.dtype not in FUSIBLE for prim in prims) or dtype not in FUSIBLE:
            raise Unsupported(f"{op} on {[prim.dtype for prim in prims]}")
        shape = broadcast([prim.shape for prim in prims])
        refs = tuple(Ref(arg.name) if isinstance(arg, Prim) else arg for arg in operands)
        sym = broadcast_sym(shape, prims)
        return self.add(Prim(self._name(), "point", op, refs, shape, dtype, sym, self._origin()))

    @property
    def dtype(self) -> str:
        """Of the current node's result."""
        if self.at is None or self.at.out is None:
            raise Unsupported(f"{self.at.op if self.at else 'nothing'} has no tensor result")
        return self.at.out.dtype

    def result(self, op: str, *args: Any) -> Prim:
        """An element-wise primitive of the current node's result type."""
        return self.point(op, *args, dtype=self.dtype)

    def through_expand(self, prim: Prim) -> Prim:
        """The tensor behind an expand: element-wise operations broadcast anyway."""
        while "expands" in prim.attrs:
            prim = self.prims[prim.attrs["expands"].name]
        return prim

    def reduce(self, op: str, value: Prim, dims: Sequence[int], *, keepdim: bool) -> Prim:
        """sum, max or min over one run of dimensions; raises Unsupported when they are no run."""
        where = tuple(sorted({d % max(len(value.shape), 1) for d in dims}))
        if value.dtype not in FLOATS or span(value, where) is None:
            raise Unsupported(f"{op} over dimensions {list(dims)} of a {value.dtype} tensor {list(value.shape)}")
        keep = [d for d in range(len(value.shape)) if keepdim or d not in where]
        shape = tuple(1 if d in where else value.shape[d] for d in keep)
        sym = tuple("1" if d in where else value.sym[d] for d in keep)
        attrs = {"dims": where, "keepdim": keepdim, **self._origin()}
        return self.add(Prim(self._name(), "reduce", op, (Ref(value.name),), shape, "float32", sym, attrs))

    def count_of(self, value: Prim, dims: Sequence[int]) -> Size:
        """How many elements a reduction over `dims` takes, at run time."""
        return Size(product([value.sym[d] for d in sorted({d % len(value.shape) for d in dims})]))

    def mean(self, value: Prim, dims: Sequence[int], *, keepdim: bool, dtype: str = "float32") -> Prim:
        total = self.reduce("sum", value, dims, keepdim=keepdim)
        return self.point("div", total, self.count_of(value, dims), dtype=dtype)

    def reshape(self, value: Prim, shape: Shape, sym: tuple[str, ...] | None = None) -> Prim:
        """The same elements in the same order under another shape."""
        if shape == value.shape:
            return value
        out = sym or reshape_sym(value, shape)
        return self.add(
            Prim(self._name(), "reshape", "reshape", (Ref(value.name),), shape, value.dtype, out, self._origin())
        )

    def torch(self, template: str, *args: Any, like: Any = None, **attrs: Any) -> Prim:
        """A call the host makes; `template` names its operands {0}, {1}, ... `like` is the result's TensorInfo."""
        assert self.at is not None
        info = like or self.at.out
        name = self._name()
        shape = tuple(info.shape) if info else ()
        refs = tuple(Ref(arg.name) if isinstance(arg, Prim) else arg for arg in args)
        sym = tuple(f"t_{name}.shape[{axis}]" for axis in range(len(shape)))
        dtype = info.dtype if info else ""
        return self.add(Prim(name, "torch", template, refs, shape, dtype, sym, {**self._origin(), **attrs}))

    def matmul(self, left: Prim, right: Prim, *, turned: bool, sym: tuple[str, ...], shape: Shape, dtype: str) -> Prim:
        """left @ right, or left @ right.T when `turned` (a linear layer's weight)."""
        attrs = {"turned": turned, **self._origin()}
        refs = (Ref(left.name), Ref(right.name))
        return self.add(Prim(self._name(), "matmul", "matmul", refs, shape, dtype, sym, attrs))


CASTS = frozenset({"float", "float16", "bfloat16", "copy"})
MAX_HEAD = 256


def match_attention(program: Program) -> Program:
    """The program with every match replaced. Values of a match that something else reads keep it from matching."""
    prims = dict(program.prims)
    users = {name: [user.name for user in found] for name, found in program.users().items()}
    for prim in program.prims.values():
        found = _Match(program, users).of(prim)
        if found is not None:
            whole, swallowed = found
            for name in swallowed:
                prims.pop(name, None)
            prims[prim.name] = whole
    return dataclasses.replace(program, prims=prims)


class _Match:
    def __init__(self, program: Program, users: dict[str, list[str]]) -> None:
        self.prims, self.users, self.outputs = program.prims, users, program.outputs()

    def of(self, last: Prim) -> tuple[Prim, tuple[str, ...]] | None:
        """The attention that ends in `last`, the product with v, and the primitives that it takes the place of."""
        if last.kind != "matmul" or last.attrs["turned"]:
            return None
        left, v = (self.prims[name] for name in last.refs())
        inner: list[str] = []
        while left.kind == "point" and left.op in CASTS and self._only(left.name, 1):
            inner.append(left.name)
            left = self.prims[left.refs()[0]]
        softmax = self._softmax(left)
        if softmax is None or len(v.shape) != len(last.shape):
            return None
        top, swallowed = softmax
        scores = self._scores(top)
        if scores is None:
            return None
        first, chain = scores
        if self.prims[first.refs()[0]].shape[-1] > MAX_HEAD or v.shape[-1] > MAX_HEAD:
            return None
        names = {first.name, *(prim.name for prim in chain)}
        reads = tuple(Ref(n) for prim in chain for n in prim.refs() if n not in names)
        q, k = first.args
        attrs = {"scores": first, "chain": tuple(chain), "reads": reads, "safe": False, "causal": False}
        attrs["node"] = last.attrs["node"]
        whole = dataclasses.replace(last, kind="attention", op="explicit", args=(q, k, Ref(v.name)), attrs=attrs)
        return whole, (*inner, *swallowed, *names)

    def _only(self, name: str, readers: int) -> bool:
        return len(self.users[name]) == readers and name not in self.outputs

    def _softmax(self, div: Prim) -> tuple[Prim, tuple[str, ...]] | None:
        """The argument of a softmax over the last dimension that ends in `div`, and the primitives it is made of."""
        if div.kind != "point" or div.op != "div" or not self._only(div.name, 1) or len(div.refs()) != 2:
            return None
        raised, total = (self.prims[name] for name in div.refs())
        last = len(div.shape) - 1
        if raised.op != "exp" or total.kind != "reduce" or total.op != "sum" or total.attrs["dims"] != (last,):
            return None
        shifted = self.prims[raised.refs()[0]]
        if (shifted.kind, shifted.op) != ("point", "sub") or len(shifted.refs()) != 2 or total.refs()[0] != raised.name:
            return None
        top, peak = (self.prims[name] for name in shifted.refs())
        if peak.kind != "reduce" or peak.op != "max" or peak.refs()[0] != top.name or peak.attrs["dims"] != (last,):
            return None
        single = all(self._only(p.name, n) for p, n in ((raised, 2), (total, 1), (shifted, 1), (peak, 1), (top, 2)))
        return (top, (div.name, raised.name, total.name, shifted.name, peak.name)) if single else None

    def _scores(self, top: Prim) -> tuple[Prim, list[Prim]] | None:
        """Walks an element-wise chain back to the product q @ k; the chain comes in execution order."""
        chain: list[Prim] = []
        prim = top
        while prim.kind == "point":
            if prim is not top and not self._only(prim.name, 1):
                return None
            chain.insert(0, prim)
            inside = [name for name in prim.refs() if self._leads_to_product(name, prim)]
            if len(inside) != 1:
                return None
            prim = self.prims[inside[0]]
        if prim.kind != "matmul" or prim.attrs["turned"] or prim.shape != top.shape:
            return None
        return (prim, chain) if self._only(prim.name, 1 if chain else 2) else None

    def _leads_to_product(self, name: str, user: Prim) -> bool:
        prim = self.prims[name]
        if prim.shape != user.shape:
            return False
        return prim.kind == "matmul" or (
            prim.kind == "point" and any(self._leads_to_product(n, prim) for n in prim.refs())
        )
