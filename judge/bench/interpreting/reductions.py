"""Triton's interpreted reductions and scans, with bfloat16 right, work counted, and custom combines vectorised.

Triton calls a custom combine function once an element in Python; here it is called once a tree level on whole blocks,
which is allowed because a combine function must be associative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as triton_interpreter
from triton.runtime.interpreter import ReduceOps, ScanOps

from judge.bench.interpreting.builder import narrow, widen

Blocks = list[Any]


def install() -> None:
    """Replace the methods of Triton's ReduceOps and ScanOps. Once a process."""
    for kind in (ReduceOps, ScanOps):
        kind.apply_impl = _counted_and_widened(kind.apply_impl)
    ReduceOps.generic_reduce = _tree_reduce
    ScanOps.generic_scan = _tree_scan


def _counted_and_widened(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply_impl(self: Any, inputs: tuple[Any, ...]) -> Any:
        counter = getattr(triton_interpreter.interpreter_builder, "counter", None)
        if counter is not None:
            counter.arithmetic(sum(t.handle.data.size for t in inputs if t.dtype.is_floating()))
        if not any(t.dtype == tl.bfloat16 for t in inputs):
            return original(self, inputs)
        wide = tuple(_retyped(t, widen(t.handle)) if t.dtype == tl.bfloat16 else t for t in inputs)
        out = original(self, wide)
        outs = out if isinstance(out, list | tuple) else [out]
        return [
            _retyped(o, narrow(o.handle.data)) if index < len(inputs) and inputs[index].dtype == tl.bfloat16 else o
            for index, o in enumerate(outs)
        ]

    return apply_impl


def _retyped(tensor: Any, handle: Any) -> Any:
    dtype = handle.dtype.scalar
    shape = list(tensor.shape)
    return tl.core.tensor(handle, tl.block_type(dtype, shape) if shape else dtype)


def _combine(operation: Any, left: Blocks, right: Blocks, dtypes: list[Any]) -> Blocks:
    """`operation.combine_fn` on two lists of equally shaped arrays, element by element of the lists."""
    wrap = [
        operation.to_tensor(data, dtype) for blocks in (left, right) for data, dtype in zip(blocks, dtypes, strict=True)
    ]
    out = operation.combine_fn.fn(*wrap)
    outs = out if isinstance(out, tuple) or _is_triton_tuple(out) else (out,)
    shape = left[0].shape
    return [
        np.broadcast_to(np.asarray(o.handle.data if isinstance(o, tl.core.tensor) else o), shape).astype(block.dtype)
        for o, block in zip(outs, left, strict=True)
    ]


def _is_triton_tuple(value: Any) -> bool:
    return isinstance(value, tl.tuple)


def _tree_reduce(self: Any, inputs: tuple[Any, ...]) -> list[Any]:
    """Pairs of neighbours are combined until one is left; block sizes are powers of two."""
    dtypes = [t.dtype for t in inputs]
    shape = inputs[0].handle.data.shape
    axis = 0 if self.axis is None else self.axis
    blocks = [t.handle.data.reshape(-1) if self.axis is None else np.moveaxis(t.handle.data, axis, 0) for t in inputs]
    while blocks[0].shape[0] > 1:
        even = blocks[0].shape[0] // 2 * 2
        merged = _combine(self, [b[0:even:2] for b in blocks], [b[1:even:2] for b in blocks], dtypes)
        blocks = [np.concatenate([m, b[even:]]) for m, b in zip(merged, blocks, strict=True)]
    return [self.to_tensor(_reduced(self, b[0], shape), dtype) for b, dtype in zip(blocks, dtypes, strict=True)]


def _reduced(self: Any, data: Any, shape: tuple[int, ...]) -> Any:
    if self.keep_dims:
        return data.reshape((1,) * len(shape)) if self.axis is None else np.expand_dims(data, self.axis)
    return data if getattr(data, "shape", ()) else data.item()


def _tree_scan(self: Any, inputs: list[Any]) -> list[Any]:
    """Inclusive scan by doubling: after step d every element holds the combination of the 2d elements up to it."""
    dtypes = [t.dtype for t in inputs]
    blocks = [np.moveaxis(t.handle.data, self.axis, 0).copy() for t in inputs]
    distance = 1
    while distance < blocks[0].shape[0]:
        # Whole blocks, since Triton's block sizes are powers of two; the first `distance` results are not used.
        shifted = [np.concatenate([b[:distance], b[:-distance]]) for b in blocks]
        merged = _combine(self, shifted, blocks, dtypes)
        blocks = [np.concatenate([b[:distance], m[distance:]]) for m, b in zip(merged, blocks, strict=True)]
        distance *= 2
    return [
        self.to_tensor(np.ascontiguousarray(np.moveaxis(b, 0, self.axis)), dtype)
        for b, dtype in zip(blocks, dtypes, strict=True)
    ]
