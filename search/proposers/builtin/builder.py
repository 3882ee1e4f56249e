"""Builds the primitive program: one method per kind of primitive, with shapes, dtypes and run-time sizes worked out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from judge.values.graph import OpNode
from search.proposers.builtin.elementwise import INTEGER_SAFE
from search.proposers.builtin.ir import (
    FLOATS,
    INTEGERS,
    Prim,
    Ref,
    Shape,
    Size,
    Unsupported,
    broadcast,
    broadcast_sym,
    product,
    reshape_sym,
    span,
)

FUSIBLE = FLOATS | INTEGERS | {"bool"}


class Builder:
    """Collects primitives. `at` is the graph node being lowered; its decomposition gets names derived from it."""

    def __init__(self) -> None:
        self.prims: dict[str, Prim] = {}
        self.bound: dict[str, Any] = {}  # graph node -> Prim, or a plain number
        self.at: OpNode | None = None
        self.count = 0
        self.opaque: list[str] = []  # operators left to torch

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
