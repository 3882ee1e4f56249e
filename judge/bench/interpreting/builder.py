"""Triton's interpreter with its gaps repaired: bounds, bfloat16, TF32, half-precision dot, reductions, counted work.

`RepairedBuilder` is put in place of the class of Triton's one interpreter builder, so every operation a kernel makes
comes through here. Method names and signatures are Triton's (private, versions 3.6 to 3.9).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import triton.language as tl
from triton._C.libtriton import ir
from triton.runtime import interpreter as triton_interpreter
from triton.runtime.interpreter import InterpreterBuilder, InterpreterOptions, ReduceOps, ScanOps, TensorHandle

from judge.bench.interpreting.counters import LaunchCounter
from judge.bench.interpreting.op_traffic import OWN_COMPUTE

Bits16 = npt.NDArray[np.uint16]
Float32 = npt.NDArray[np.float32]


def bf16_to_fp32(bits: Bits16) -> Float32:
    """Exact: a bfloat16 is the upper half of a float32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def fp32_to_bf16(values: npt.NDArray[Any]) -> Bits16:
    """Round to nearest, ties to even; NaN becomes the quiet NaN. Wider floats go through fp32, as on a GPU."""
    single = np.ascontiguousarray(values, dtype=np.float32)
    bits = single.view(np.uint32)
    bias = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded = ((bits + bias) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(single), np.uint16(0x7FC0), rounded).reshape(values.shape)


def cut_to_tf32(values: Float32) -> Float32:
    """What the tensor cores see of a float32 that `tl.dot` hands them: ten explicit mantissa bits, the rest cut off.

    Measured on an H200 (Triton 3.6, mma and wgmma): equal to cut operands within 3e-5, 0.02-0.05 from rounded ones.
    cuBLAS rounds to nearest even instead, so its TF32 is about twice as accurate.
    """
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32).reshape(values.shape)


Array = npt.NDArray[Any]

_COMPARISONS = {np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal}
_DOT_KINDS = {tl.float64: "fp64", tl.float16: "fp16", tl.bfloat16: "bf16", tl.int8: "int8", tl.uint8: "int8"}
_ATOMIC_FLOAT = {ir.ATOMIC_OP.FADD: np.add, ir.ATOMIC_OP.MAX: np.maximum, ir.ATOMIC_OP.MIN: np.minimum}


class Unsupported(Exception):
    """The interpreter cannot run this kernel; the message says which operation and why."""


def widen(handle: Any) -> Any:
    """The same numbers as float32 when the handle holds bfloat16 bits; any other handle unchanged."""
    if isinstance(handle, TensorHandle) and _is_bf16(handle):
        return TensorHandle(bf16_to_fp32(handle.data), tl.float32)
    return handle


def narrow(data: Array) -> Any:
    """float32 numbers as a bfloat16 handle, rounded to nearest even."""
    return TensorHandle(fp32_to_bf16(np.asarray(data)), tl.bfloat16)


def _is_bf16(handle: Any) -> bool:
    # A comparison of bfloat16 values may still carry their type; its data are booleans.
    return bool(handle.dtype.scalar == tl.bfloat16 and handle.data.dtype == np.uint16)


def _access_size(handle: Any) -> int:
    return int(max(1, handle.get_element_ty().primitive_bitwidth // 8))


def _mask_array(mask: Any, shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """The mask as a boolean array; block pointers of Triton before 3.9 pass a bare array."""
    data = mask if isinstance(mask, np.ndarray) else mask.data
    return np.broadcast_to(np.asarray(data, dtype=bool), shape)


def _erf(data: Array) -> Any:
    return torch.erf(torch.from_numpy(np.ascontiguousarray(data))).numpy()


OWN_COMPUTE.add(_erf.__code__)


class RepairedBuilder(InterpreterBuilder):  # type: ignore[misc]
    """See the module. `counter` is the launch that is running."""

    counter: LaunchCounter | None = None

    # The overflow checks compute what device_assert then drops, since debug is off: four numpy calls an index.
    repaired_options = dataclasses.replace(InterpreterOptions(), sanitize_overflow=False)

    def set_grid_idx(self, x: int, y: int, z: int) -> None:
        super().set_grid_idx(x, y, z)
        if self.counter is not None:
            self.counter.programs += 1
            self.counter.bounds.program = (x, y, z)

    # memory

    def _touch(self, pointers: Array, mask: npt.NDArray[np.bool_], size: int, action: str) -> None:
        counter = self.counter
        if counter is None:
            return
        active = pointers if mask.all() else pointers[mask]
        counter.bounds.check(active, size, action)
        counter.access(active, size, "read" if action == "load" else "write")

    def create_masked_load(self, ptrs: Any, mask: Any, other: Any, *args: Any, **kwargs: Any) -> Any:
        flags = _mask_array(mask, ptrs.data.shape)
        self._touch(ptrs.data, flags, _access_size(ptrs), "load")
        return super().create_masked_load(ptrs, TensorHandle(flags, tl.int1), other, *args, **kwargs)

    def create_masked_store(self, ptrs: Any, value: Any, mask: Any, *args: Any, **kwargs: Any) -> Any:
        flags = _mask_array(mask, ptrs.data.shape)
        self._touch(ptrs.data, flags, _access_size(ptrs), "store")
        return super().create_masked_store(ptrs, value, TensorHandle(flags, tl.int1), *args, **kwargs)

    def create_atomic_rmw(self, op: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        flags = _mask_array(mask, ptr.data.shape)
        self._touch(ptr.data, flags, _access_size(ptr), "atomic")
        if not _is_bf16(val):
            return super().create_atomic_rmw(op, ptr, val, TensorHandle(flags, tl.int1), sem, scope)
        return self._atomic_bf16(op, ptr, val, flags)

    def _atomic_bf16(self, op: Any, ptr: Any, val: Any, flags: npt.NDArray[np.bool_]) -> Any:
        """One lane after another, rounded after each, as the hardware does; returns the old values."""
        combine = _ATOMIC_FLOAT.get(op)
        if combine is None:
            raise Unsupported(f"atomic {op} on bfloat16")
        old = np.zeros(ptr.data.shape, dtype=np.uint16)
        values = np.broadcast_to(val.data, ptr.data.shape)
        for index in zip(*np.nonzero(flags), strict=True):
            lane = TensorHandle(ptr.data[index].reshape(1), ptr.dtype)
            on = TensorHandle(np.ones(1, dtype=bool), tl.int1)
            before = triton_interpreter._interpreter.load(
                lane.data, on.data, np.zeros(1, np.uint16), np.dtype(np.uint16)
            )
            total = combine(bf16_to_fp32(before), bf16_to_fp32(values[index].reshape(1)))
            triton_interpreter._interpreter.store(lane.data, fp32_to_bf16(total), on.data)
            old[index] = before[0]
        return TensorHandle(old, tl.bfloat16)

    def create_atomic_cas(self, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
        self._touch(ptr.data, np.ones(ptr.data.shape, dtype=bool), _access_size(ptr), "atomic")
        return super().create_atomic_cas(ptr, cmp, val, sem, scope)

    # casts and constants

    def get_bf16(self, value: float) -> Any:
        return narrow(np.array([value], dtype=np.float32))

    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        wide = widen(src)
        if dst_type.scalar == tl.bfloat16:
            return src if _is_bf16(src) else narrow(wide.data)
        if wide is not src:
            return TensorHandle(wide.data.astype(triton_interpreter._get_np_dtype(dst_type)), dst_type.scalar)
        return super().cast_impl(src, dst_type)

    def create_fp_to_fp(self, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        """Through float32 for bfloat16; numpy's own casts round fp32 and fp16 to nearest even."""
        plain = {tl.float16, tl.bfloat16, tl.float32, tl.float64}
        if src.dtype.scalar in plain and dst_type.scalar in plain and rounding_mode != ir.ROUNDING_MODE.RTZ:
            return self.cast_impl(src, dst_type)
        if _is_bf16(src):  # to an 8-bit float
            src = widen(src)
        return super().create_fp_to_fp(src, dst_type, rounding_mode)

    # arithmetic

    def _count(self, *handles: Any) -> None:
        if self.counter is not None and handles[-1].dtype.scalar.is_floating():
            self.counter.arithmetic(max(handle.data.size for handle in handles))

    def binary_op(self, lhs: Any, rhs: Any, op: Any) -> Any:
        if op in _COMPARISONS:
            return TensorHandle(op(widen(lhs).data, widen(rhs).data), tl.int1)
        self._count(rhs, lhs)
        if _is_bf16(lhs):
            return narrow(op(widen(lhs).data, widen(rhs).data))
        return super().binary_op(lhs, rhs, op)

    def unary_op(self, arg: Any, op: Any) -> Any:
        self._count(arg)
        return narrow(op(widen(arg).data)) if _is_bf16(arg) else super().unary_op(arg, op)

    def ternary_op(self, lhs: Any, rhs: Any, other: Any, op: Any) -> Any:
        if op is np.where:
            return super().ternary_op(lhs, rhs, other, op)
        self._count(lhs, rhs, other)
        if _is_bf16(other):
            return narrow(op(widen(lhs).data, widen(rhs).data, widen(other).data))
        return super().ternary_op(lhs, rhs, other, op)

    def create_fma(self, x: Any, y: Any, z: Any) -> Any:
        self._count(x, y, z)
        self._count(x, y, z)  # a multiply-add is two
        if _is_bf16(z):
            exact = widen(x).data.astype(np.float64) * widen(y).data + widen(z).data
            return narrow(exact)
        return super().create_fma(x, y, z)

    def create_rsqrt(self, arg: Any) -> Any:
        return self.unary_op(arg, lambda data: (1 / np.sqrt(data)).astype(data.dtype))

    def create_erf(self, arg: Any) -> Any:
        """torch's erf: numpy has none, and Triton's stand-in calls Python once an element."""
        return self.unary_op(arg, _erf)

    # dot

    def create_dot(self, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
        kind = _dot_kind(a, input_precision)
        if self.counter is not None:
            flops = 2 * int(np.prod(a.data.shape)) * int(b.data.shape[-1])
            # three products on tensor cores make one that is accurate as fp32
            thrice = kind == "fp32" and input_precision == ir.INPUT_PRECISION.TF32x3
            self.counter.dot("tf32" if thrice else kind, 3 * flops if thrice else flops)
        left, right = (_dot_operand(handle, kind) for handle in (a, b))
        accumulator = widen(d)
        if kind == "int8":
            return TensorHandle((left @ right).astype(np.int64).astype(d.data.dtype) + d.data, d.dtype.scalar)
        total = left @ right + accumulator.data.astype(left.dtype)
        return narrow(total) if _is_bf16(d) else TensorHandle(total.astype(d.data.dtype), d.dtype.scalar)

    # what cannot be interpreted

    def create_inline_asm(self, *args: Any, **kwargs: Any) -> Any:
        raise Unsupported("inline assembly (tl.inline_asm_elementwise) runs on a GPU only")

    def create_extern_elementwise(self, library: str, path: str, symbol: str, *args: Any, **kwargs: Any) -> Any:
        raise Unsupported(f"the extern function {symbol} runs on a GPU only")


def _dot_kind(a: Any, input_precision: Any) -> str:
    dtype = a.dtype.scalar
    if dtype == tl.float32:
        return "tf32" if input_precision == ir.INPUT_PRECISION.TF32 else "fp32"
    if dtype.primitive_bitwidth == 8 and dtype.is_floating():
        return "fp8"
    return _DOT_KINDS.get(dtype, "fp32")


def _dot_operand(handle: Any, kind: str) -> Array:
    """The operand in a type numpy multiplies fast and exactly: products of halves and of int8 fit."""
    if kind == "int8":
        return np.asarray(handle.data, dtype=np.float64)
    if kind == "fp8":
        as_half = triton_interpreter._convert_float(handle.data, handle.dtype.scalar, tl.float16, None)
        return np.asarray(as_half.view(np.float16), dtype=np.float32)
    if kind == "tf32":
        return cut_to_tf32(handle.data)
    data = widen(handle).data
    return np.asarray(data, dtype=np.float64 if data.dtype == np.float64 else np.float32)


Blocks = list[Any]


def install() -> None:
    """Replace the methods of Triton's ReduceOps and ScanOps. Once a process."""
    for kind in (ReduceOps, ScanOps):
        kind.apply_impl = _counted_and_widened(kind.apply_impl)
    ReduceOps.generic_reduce = _tree_reduce
    ScanOps.generic_scan = _tree_scan
    ReduceOps.to_tensor = _wrapping(ReduceOps.to_tensor)


def _wrapping(original: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    """numpy adds up integers in 64 bits and refuses a sum that does not fit; on a GPU it wraps around."""

    def to_tensor(self: Any, ret: Any, dtype: Any) -> Any:
        if isinstance(ret, int | np.integer):
            ret = np.asarray(ret).astype(triton_interpreter._get_np_dtype(dtype))[()]
        return original(self, ret, dtype)

    return to_tensor


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
    outs = out if isinstance(out, tuple | tl.tuple) else (out,)
    shape = left[0].shape
    return [
        np.broadcast_to(np.asarray(o.handle.data if isinstance(o, tl.core.tensor) else o), shape).astype(block.dtype)
        for o, block in zip(outs, left, strict=True)
    ]


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
