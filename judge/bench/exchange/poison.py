"""Uninitialised allocations filled with a recognisable NaN, so that a result nobody wrote cannot look right."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Bit patterns; for floating types they are NaNs with a payload that no arithmetic produces.
PATTERNS: dict[torch.dtype, tuple[torch.dtype, int]] = {
    torch.float64: (torch.int64, 0x7FF8DEAD0BADCAFE),
    torch.float32: (torch.int32, 0x7FC0DEAD),
    torch.float16: (torch.int16, 0x7E5A),
    torch.bfloat16: (torch.int16, 0x7FDA),
    torch.int64: (torch.int64, 0x5A5A5A5A5A5A5A5A),
    torch.int32: (torch.int32, 0x5A5A5A5A),
}
_EMPTY = {"aten::empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty", "aten::new_empty_strided"}


def poison(tensor: torch.Tensor) -> None:
    """Fill in place. Types without a pattern are left alone."""
    pattern = PATTERNS.get(tensor.dtype)
    if pattern is not None and tensor.numel():
        tensor.view(pattern[0]).fill_(pattern[1])


def poisoned(tensor: torch.Tensor) -> torch.Tensor:
    """Boolean mask of elements that still hold the pattern."""
    pattern = PATTERNS.get(tensor.dtype)
    if pattern is None:
        return torch.zeros(tensor.shape, dtype=torch.bool, device=tensor.device)
    return tensor.contiguous().view(pattern[0]) == pattern[1]


class poisoned_allocations(TorchDispatchMode):  # type: ignore[misc]
    """Within it, torch.empty and its relatives return poisoned memory."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Without this a single call in here makes torch.compile give a function up for good: it would run eagerly."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func._schema.name in _EMPTY and isinstance(out, torch.Tensor) and out.device.type != "meta":
            poison(out)
        return out
