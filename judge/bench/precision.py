"""How far a kernel may be from the fp64 oracle: error measures, the allowed error, coarser formats.

Errors are divided by the standard deviation of the oracle, so that tiny outputs do not pass for being tiny.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

K_RMS, K_MAX = 4.0, 8.0
UNITS_RMS, UNITS_MAX = 32.0, 128.0
ILL_CONDITIONED = 1e-2
ROUNDOFF = {torch.float64: 2.0**-53}  # every other type accumulates in float32
FP32_ROUNDOFF = 2.0**-24


@dataclass(frozen=True)
class Errors:
    """RMS and largest error, both over the oracle's standard deviation (over its RMS where it does not vary)."""

    rms: float
    largest: float

    @property
    def finite(self) -> bool:
        return math.isfinite(self.rms) and math.isfinite(self.largest)


def errors(value: torch.Tensor, oracle: torch.Tensor) -> Errors:
    """Errors of `value` against `oracle` (fp64). Equal infinities and NaN in the same place count as right."""
    if oracle.numel() == 0:
        return Errors(0.0, 0.0)
    if oracle.is_complex():
        value, oracle = torch.view_as_real(value), torch.view_as_real(oracle)
    value, oracle = value.double(), oracle.double()
    same = (value == oracle) | (value.isnan() & oracle.isnan())
    difference = torch.where(same, torch.zeros((), dtype=torch.float64, device=oracle.device), value - oracle).abs()
    scale = _scale(oracle)
    if scale == 0:
        exact = bool(same.all())
        return Errors(0.0, 0.0) if exact else Errors(math.inf, math.inf)
    return Errors(float(difference.square().mean().sqrt()) / scale, float(difference.max()) / scale)


def _scale(oracle: torch.Tensor) -> float:
    finite = oracle[oracle.isfinite()]
    if finite.numel() == 0:
        return 0.0
    rms = float(finite.square().mean().sqrt())
    spread = float(finite.std(correction=0)) if finite.numel() > 1 else 0.0
    return spread if spread > 1e-6 * rms else rms


@dataclass(frozen=True)
class Allowed:
    """Largest errors that still count as right."""

    rms: float
    largest: float

    def holds(self, found: Errors) -> bool:
        return found.finite and found.rms <= self.rms and found.largest <= self.largest


def allowed(reference: Errors, low: Errors | None, dtype: torch.dtype, length: int) -> Allowed:
    """`max(k * e_ref, min(32 u sqrt(L), e_low / 4))`, and likewise for the largest error with k = 8 and 128 u.

    `reference`: errors of the honest same-dtype reference; `low`: of the reference in a coarser format, None for
    16-bit problems; `length`: longest reduction.
    """
    unit = ROUNDOFF.get(dtype, FP32_ROUNDOFF) * math.sqrt(max(1, length))
    coarse_rms = low.rms / 4 if low is not None and low.finite else math.inf
    coarse_max = low.largest / 4 if low is not None and low.finite else math.inf
    return Allowed(
        max(K_RMS * reference.rms, min(UNITS_RMS * unit, coarse_rms)),
        max(K_MAX * reference.largest, min(UNITS_MAX * unit, coarse_max)),
    )


def rounded(value: Any, kind: str) -> Any:
    """`value` (nested) with every float32 tensor rounded to "tf32", "bfloat16" or "float16", kept as float32."""
    if isinstance(value, torch.Tensor):
        if value.dtype != torch.float32:
            return value
        if kind == "tf32":
            bits = value.contiguous().view(torch.int32)
            near = (bits + 0x0FFF + ((bits >> 13) & 1)) & ~0x1FFF  # ten mantissa bits, ties to even
            return torch.where(value.isfinite(), near.view(torch.float32).reshape(value.shape), value)
        return value.to(getattr(torch, kind)).to(torch.float32)
    if isinstance(value, list | tuple):
        return [rounded(item, kind) for item in value]
    if isinstance(value, dict):
        return {key: rounded(item, kind) for key, item in value.items()}
    return value


_aten = torch.ops.aten


class _LongestReduction(TorchDispatchMode):  # type: ignore[misc]
    """Watches operators for the number of terms that end up in one result element."""

    def __init__(self) -> None:
        super().__init__()
        self.length = 1

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        if tensors:
            self.length = max(self.length, _terms(name, tensors, out))
        return out


def _terms(name: str, tensors: list[torch.Tensor], out: Any) -> int:
    result = out[0] if isinstance(out, tuple | list) and out else out
    if not isinstance(result, torch.Tensor) or not tensors[0].is_floating_point():
        return 1
    if name in ("mm", "bmm", "addmm", "baddbmm", "addmv", "mv", "dot"):
        left = tensors[1] if name.startswith("add") or name == "baddbmm" else tensors[0]
        return int(left.shape[-1]) if left.dim() else 1
    if "convolution" in name and len(tensors) > 1:
        weight = tensors[1]
        return int(max(1, weight.numel() // max(1, weight.shape[0])))
    if "attention" in name or "softmax" in name or name.startswith(("cumsum", "cumprod", "logcumsumexp")):
        return int(max(tensors[0].shape, default=1))
    if "norm" in name:
        return max(1, tensors[0].numel() // max(1, min(t.numel() for t in (out[1:] or [result])))) if _many(out) else 1
    if tensors[0].numel() > result.numel() > 0 and name not in ("slice", "select", "index", "embedding"):
        return int(tensors[0].numel() // result.numel())
    return 1


def _many(out: Any) -> bool:
    return isinstance(out, tuple) and len(out) > 1 and all(isinstance(t, torch.Tensor) and t.numel() for t in out[1:])


def longest_reduction(run: Any) -> int:
    """Terms in the longest reduction that `run()` does, read off its operators."""
    mode = _LongestReduction()
    with torch.no_grad(), mode:
        run()
    return mode.length
