"""What the proposer's passes hand to each other: primitive operations on typed values, and facts about shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

FLOATS = frozenset({"float32", "float16", "bfloat16"})
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
    """Primitives in execution order, the returned structure (nested Refs), and what the reader should be told."""

    prims: dict[str, Prim]
    result: Any
    arguments: tuple[str, ...]
    notes: tuple[str, ...] = ()

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
