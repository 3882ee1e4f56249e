"""Input families: the same shapes with other content, so that a kernel right only on the given numbers is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

FAMILIES = ("given", "given", "centred", "scaled", "adversarial")


def _centred(tensor: torch.Tensor) -> torch.Tensor:
    """Zero mean, unit scale. The content is new; what the problem gave only fixes shape and type."""
    return torch.randn_like(tensor)


def _scaled(tensor: torch.Tensor) -> torch.Tensor:
    """The given content, spread and shifted by amounts drawn anew."""
    low, high = (1.5, 4.0) if tensor.dtype.itemsize >= 4 else (1.25, 2.0)
    factor = low + (high - low) * float(torch.rand(()))
    shift = (float(torch.rand(())) - 0.5) * 2
    return tensor * factor + shift


def _adversarial(tensor: torch.Tensor) -> torch.Tensor:
    """Rows of mixed magnitude, two equal rows, a block of zeros, one outlier, largest values that stand twice."""
    out = torch.randn_like(tensor)
    if out.dim() == 0 or out.numel() == 0:
        return out
    rows = out.reshape(-1, out.shape[-1]) if out.dim() > 1 else out.reshape(1, -1)
    reach = 1.5 if tensor.dtype.itemsize >= 4 else 0.5
    rows *= 10 ** ((torch.rand(rows.shape[0], 1, device=out.device) * 2 - 1) * reach).to(out.dtype)
    twice = torch.randint(rows.shape[1], (rows.shape[0], 1), device=out.device)
    rows.scatter_(1, twice, rows.amax(1, keepdim=True))
    row = int(torch.randint(rows.shape[0], ()))
    rows[row, int(torch.randint(rows.shape[1], ()))] = 50.0 if tensor.dtype.itemsize >= 4 else 8.0
    if rows.shape[0] > 2:  # after the outlier, which must not hit the zeros
        rows[-1] = rows[0]
        rows[rows.shape[0] // 2] = 0
    elif rows.shape[1] > 8:
        rows[:, : rows.shape[1] // 8] = 0
    return rows.reshape(out.shape)


_CHANGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "centred": _centred,
    "scaled": _scaled,
    "adversarial": _adversarial,
}


def reshaped(family: str, value: Any) -> Any:
    """`value` (nested) with the family applied to every floating tensor; integers and booleans stay as they are.

    Layout is kept: a transposed input stays transposed.
    """
    if isinstance(value, torch.Tensor):
        change = _CHANGES.get(family)
        if change is None or not value.is_floating_point():
            return value
        out = torch.empty_strided(value.shape, _writable_stride(value), dtype=value.dtype, device=value.device)
        return out.copy_(change(value.detach()))
    if isinstance(value, list | tuple):
        return type(value)([reshaped(family, item) for item in value]) if type(value) in (list, tuple) else value
    if isinstance(value, dict):
        return {key: reshaped(family, item) for key, item in value.items()}
    return value


def _writable_stride(tensor: torch.Tensor) -> tuple[int, ...]:
    overlapping = any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True))
    return tuple(torch.empty(tensor.shape, device="meta").stride()) if overlapping else tuple(tensor.stride())


def redraw(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """New content for a parameter: its own spread plus an offset, so that fresh ones and zeros are not special.

    A fresh LayerNorm is nearly the identity (weight 1, bias 0); after this it is not. Positive running statistics
    ("var") stay positive.
    """
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return tensor.clone()
    spread = float(tensor.double().std()) if tensor.numel() > 1 else 0.0
    spread = spread if spread > 0 else 0.25
    noise = torch.randn_like(tensor) * spread
    if name.rsplit(".", 1)[-1].endswith("var"):
        return tensor.abs() + noise.abs()
    return tensor + noise if float(tensor.double().abs().mean()) > 4 * spread or spread == 0.25 else noise
