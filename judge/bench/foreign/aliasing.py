"""Which tensors lie in each other's memory. Told by addresses: in an arena all inputs share one storage."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def overlaps(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> list[list[int]]:
    """Pairs [output, input] of numbers whose memory has a byte in common."""
    spans = [address_range(tensor) for tensor in inputs]
    found = []
    for number, output in enumerate(outputs):
        low, high = address_range(output)
        found += [[number, i] for i, (start, end) in enumerate(spans) if low < end and start < high]
    return found


def address_range(tensor: torch.Tensor) -> tuple[int, int]:
    """First address and the one after the last; an empty tensor has none."""
    if tensor.numel() == 0 or tensor.device.type == "meta":
        return 0, 0
    extent = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.data_ptr()
    return start, start + extent * tensor.element_size()
