"""Number formats numpy does not have: bfloat16 kept as uint16, TF32 kept as float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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
