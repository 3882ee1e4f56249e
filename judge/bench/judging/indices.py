"""Integer inputs pushed to their limits: extreme and repeated values, never outside of what was observed."""

from __future__ import annotations

import torch

SEARCHED = 1 << 24  # elements; in a longer tensor nobody looks for a permutation


def extreme(tensor: torch.Tensor) -> torch.Tensor:
    """Integers of the same shape and range: a third one value over and over, a third the least and the greatest.

    A permutation stays one, and a rising sequence (offsets) stays rising with its ends: other content would break
    what they mean.
    """
    if tensor.numel() < 2:
        return tensor
    low, high = int(tensor.min()), int(tensor.max())
    if low == high:
        return tensor
    rising = tensor.dim() == 1 and bool((tensor[1:] >= tensor[:-1]).all())
    if _all_differ(tensor):
        return tensor if rising else _shuffled(tensor)
    drawn = _drawn(tensor, low, high)
    if rising:
        drawn = drawn.sort().values
        drawn[0], drawn[-1] = low, high
    return drawn


def _all_differ(tensor: torch.Tensor) -> bool:
    return bool(tensor.numel() <= SEARCHED and tensor.unique().numel() == tensor.numel())


def _shuffled(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.reshape(-1)
    return flat[torch.randperm(flat.numel(), device=flat.device)].reshape(tensor.shape)


def _drawn(tensor: torch.Tensor, low: int, high: int) -> torch.Tensor:
    choice = torch.rand(tensor.shape, device=tensor.device)
    flat = tensor.reshape(-1)
    often = flat[torch.randint(flat.numel(), (), device=flat.device)]
    out = torch.where(choice < 1 / 3, often, tensor)
    out = torch.where((choice >= 1 / 3) & (choice < 1 / 2), torch.full_like(tensor, low), out)
    return torch.where((choice >= 1 / 2) & (choice < 2 / 3), torch.full_like(tensor, high), out)
