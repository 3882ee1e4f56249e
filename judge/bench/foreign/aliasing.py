"""Which tensors lie in each other's memory. Told by addresses: in an arena all inputs share one storage."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.multiprocessing.reductions import StorageWeakRef

MOST_EARLIER = 64  # outputs that are remembered


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


class HandedOut:
    """Tells which outputs lie in memory that their model keeps: its own state, or what it has handed out before."""

    def __init__(self) -> None:
        self._earlier: list[tuple[int, int, StorageWeakRef]] = []  # only remembered: nothing is kept alive by it

    def kept(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], state: Sequence[torch.Tensor]
    ) -> list[int]:
        """Numbers of such outputs; not of those in an input's memory, which `overlaps` tells.

        Called once a call, when nobody but the model can hold the outputs of earlier calls.
        """
        given = {number for number, _ in overlaps(outputs, inputs)}
        found = {number for number, _ in overlaps(outputs, state)}
        self._earlier = [row for row in self._earlier if not row[2].expired()][-MOST_EARLIER:]
        new = []
        for number, output in enumerate(outputs):
            low, high = address_range(output)
            if number in given or low == high:
                continue
            if any(low < end and start < high for start, end, _ in self._earlier):
                found.add(number)
            new.append((low, high, StorageWeakRef(output.untyped_storage())))
        self._earlier += new
        return sorted(found - given)
