"""The pieces of one generated kernel: its arguments, and values of a tile written line by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from search.proposers.builtin.elementwise import Operand, expression, literal
from search.proposers.builtin.fuse import Group, Layout
from search.proposers.builtin.ir import FLOATS, INTEGERS, Prim, Ref, Shape, Size, product


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
