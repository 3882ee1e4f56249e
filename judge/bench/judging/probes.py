"""Content for some references: for long sums, of which nothing may be left out, and for products, to keep digits.

A probe is named by what is done and how much of it: "few 1000". Each kind of probe is tried from the most telling
amount down, until the reference has an answer to judge by.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from judge.bench.foreign.gradients import BETWEEN

FEW_SHARE = 2.0**-8  # of the elements: few enough that half of them cannot stand for all
BLOCKS = 64  # along a dimension
STEP = 60  # places in a pattern: whoever takes every second, third, fourth or fifth misses part of it
OPPOSED = "opposed"
BY_ROWS = "scales"  # rows of very different scale: each row's error counts beside its own size

Probe = tuple[str, ...]  # amounts of one kind, the most telling first
# The energy of a sum in few places; everything but a few places pushed to where many functions vanish; parts apart.
OF_SUMS: tuple[Probe, ...] = (
    ("few 1000", "few 100", "few 30", "few 10", "few 0.001"),
    ("sunk 30", "sunk 5"),
    ("parts 30", "parts 3"),
)
ALL_OF_SUMS = frozenset(family for probe in OF_SUMS for family in probe)
# Magnitudes within a row, magnitudes from row to row, and products that cancel: in decades.
OF_PRODUCTS: tuple[Probe, ...] = (("decades 12", "decades 6"), (f"{BY_ROWS} 60", f"{BY_ROWS} 30", f"{BY_ROWS} 10"))
RESIDUE = 1e-3  # what is left of opposed halves
_IN_WORDS = {
    "few": "a few elements far above all others",
    "sunk": "all but a few elements far below the others",
    "parts": "parts of the input far apart",
    "decades": "magnitudes over many decades within every row",
    BY_ROWS: "rows of very different scale, each compared at its own",
    OPPOSED: "sums of products that nearly cancel",
    BETWEEN: "another forward between forward and backward",
}


def in_words(family: str) -> str:
    """What inputs of this family are like; empty for one that is no probe."""
    return _IN_WORDS.get(family.partition(" ")[0], "")


def probed(probe: str, tensor: torch.Tensor, number: int) -> torch.Tensor | None:
    """`tensor`, the floating input of that number, with the probe's content; None for a name that is no probe."""
    name, _, amount = probe.partition(" ")
    if name == OPPOSED:
        return opposed(tensor) if number == 0 else mirrored(torch.randn_like(tensor))
    change = _CHANGES.get(name)
    return change(tensor, float(amount)) if change is not None else None


def _few(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    """A few elements times `factor`, and parts that differ threefold; below one, everything else is so much smaller."""
    size = torch.rand_like(tensor) + 0.5
    rest = tensor * 3.0 ** _levels(tensor)
    small, large = (rest * factor, tensor) if factor < 1 else (rest, tensor * size * factor)
    return torch.where(_chosen(tensor), large, small)


def _sunk(tensor: torch.Tensor, depth: float) -> torch.Tensor:
    return torch.where(_chosen(tensor), tensor, tensor - depth)


def _parts(tensor: torch.Tensor, distance: float) -> torch.Tensor:
    return tensor + distance * _levels(tensor)


def _decades(tensor: torch.Tensor, decades: float) -> torch.Tensor:
    """Log-uniform magnitudes, `decades` from the least to the greatest, of both signs."""
    exponent = (torch.rand(tensor.shape, device=tensor.device, dtype=torch.float64) - 0.5) * decades
    return (torch.randn_like(tensor).sign() * 10**exponent).to(tensor.dtype)


def _scales(tensor: torch.Tensor, decades: float) -> torch.Tensor:
    """Rows that differ by up to `decades` in scale, the ends included."""
    content = torch.randn_like(tensor)
    if tensor.dim() < 2 or not tensor.numel():
        return content
    rows = tensor.shape[:-1].numel()
    exponent = torch.linspace(-decades / 2, decades / 2, rows, device=tensor.device, dtype=torch.float64)
    exponent = exponent[torch.randperm(rows, device=tensor.device)].reshape(*tensor.shape[:-1], 1)
    return (content.double() * 10**exponent).to(tensor.dtype)


def opposed(tensor: torch.Tensor) -> torch.Tensor:
    """Along every dimension one half is the other's negative, but for RESIDUE."""
    return _halves(torch.randn_like(tensor), -1) + RESIDUE * torch.randn_like(tensor)


def mirrored(tensor: torch.Tensor) -> torch.Tensor:
    """Along every dimension one half repeats the other: summed up against `opposed` content, little is left.

    A vector, which may be added to that, is made as little.
    """
    return _halves(tensor, 1) * (RESIDUE if tensor.dim() == 1 else 1.0)


def _halves(tensor: torch.Tensor, sign: int) -> torch.Tensor:
    out = tensor.clone()
    for dim, size in enumerate(tensor.shape):
        half = size // 2
        if half > 1:
            out.narrow(dim, half, half).copy_(sign * out.narrow(dim, 0, half))
    return out


def _chosen(tensor: torch.Tensor) -> torch.Tensor:
    return torch.rand(tensor.shape, device=tensor.device) < FEW_SHARE


def _levels(tensor: torch.Tensor) -> torch.Tensor:
    """From -1 to 1 by place: blocks along each dimension have levels of their own, and so have places in a pattern."""
    out = torch.zeros((), device=tensor.device)
    for size in tensor.shape:
        at = torch.arange(size, device=tensor.device)
        block, step = (torch.rand(count, device=tensor.device) for count in (BLOCKS, STEP))
        out = out.unsqueeze(-1) + block[at * BLOCKS // size] + step[at % STEP] - 1.0
    return (out / max(1, tensor.dim())).to(tensor.dtype)


_CHANGES: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "few": _few,
    "sunk": _sunk,
    "parts": _parts,
    "decades": _decades,
    BY_ROWS: _scales,
}
