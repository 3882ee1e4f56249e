"""Large tensors looked at part by part, so that what a comparison needs beside them stays small."""

from __future__ import annotations

from collections.abc import Iterator

import torch

PART = 1 << 26  # elements of a part: 512 MiB in fp64


def in_parts(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """Equal places of tensors of one shape, as views of about PART elements each; small ones are given as they are.

    A tensor may have size 1 along any dimension: that part of it belongs to every place.
    """
    shape = max((tensor.shape for tensor in tensors), key=torch.Size.numel)
    if shape.numel() <= PART:
        yield tensors
        return
    count = -(-shape.numel() // PART)
    dim = next((number for number, size in enumerate(shape) if size >= count), None)
    if dim is None:
        dim = max(range(len(shape)), key=lambda number: shape[number])
    step = max(1, shape[dim] // count)
    for start in range(0, shape[dim], step):
        size = min(step, shape[dim] - start)
        yield tuple(
            tensor.narrow(dim, start, size) if tensor.dim() and tensor.shape[dim] != 1 else tensor for tensor in tensors
        )


def all_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """As `torch.equal`, which takes a byte for every element."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return all(torch.equal(left, right) for left, right in in_parts(one, other))
