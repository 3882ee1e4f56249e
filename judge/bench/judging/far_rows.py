"""Rows that lie far from zero on one side, for references whose answer depends on a row's size or greatest element.

A maximum that starts from a constant, or that is taken over a part of a row, is right on rows around zero; so are
exponentials without a maximum, and a variance as the difference of two large numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from judge.bench.judging.traits import Traits

DISTANCE = 120.0  # exp overflows in fp32 above, and is zero below
OF_PRODUCTS = 30.0  # the same where products of rows come first
OF_MEANS = 400.0  # a variance as a difference of squares keeps no more than two digits here, a right one five
LEVEL = 1.2e4  # of rows of equal elements: within float16, and beyond what stands for an infinity
LEANS = 1.5  # mean over spread of what rows of one sign are multiplied by
SEGMENTS = 4  # of a single row
CHANNELS = 2  # that lie far from zero, where that is at most half of them: roundings of one may be right by luck
FARTHEST, HIGHEST = 3.0, 10.0  # times the distance, of rows that lie apart and of peaks; no higher ones in products
NEAR, BELOW, ABOVE, APART, PEAK, LOW, HIGH = range(7)


@dataclass(frozen=True)
class Far:
    """How far rows lie from zero. `peaks`: some have one element far above the others, mostly the last. `level`: some
    hold this one value or its negative everywhere (0: none do). `shared`: every input but the first has a mean beyond
    its spread instead, so that products of rows have one sign. `channels`: some places of the second dimension lie
    ABOVE in every entry. `above`: some rows lie above zero. `whole`: all of them lie below. `highest`: how many
    times `by` peaks are high at most."""

    by: float
    peaks: bool = False
    level: float = 0.0
    shared: bool = False
    channels: bool = False
    above: bool = True
    whole: bool = False
    highest: float = HIGHEST

    @property
    def kinds(self) -> tuple[int, ...]:
        """Of rows that are far, BELOW first."""
        if self.whole:
            return (BELOW, APART)
        above = (ABOVE, APART) if self.above else (APART,)
        peaks = (PEAK,) if self.peaks and self.above else ()
        levels = ((LOW, HIGH) if self.above else (LOW,)) if self.level else ()
        return (BELOW, *above, *peaks, *levels)


def choices(traits: Traits) -> tuple[Far, ...]:
    """What to try for a reference, the most telling first: one that overflows above zero may do below."""
    compares, normalises = traits.compares, traits.normalises
    if traits.multiplies:
        full = Far(OF_PRODUCTS, peaks=compares, shared=compares, channels=normalises, highest=1.0)
    elif normalises:
        full = Far(OF_MEANS, peaks=compares, channels=True)
    else:
        full = Far(DISTANCE, peaks=compares, level=LEVEL if compares else 0.0)
    return full, replace(full, above=False)


def lean(content: torch.Tensor) -> torch.Tensor:
    """Content (zero mean, unit scale) of one sign along every row, the last row of each matrix with more of it."""
    out = content + LEANS
    if out.dim() > 1:
        out.select(-2, out.shape[-2] - 1).mul_(2 * LEANS)
    return out


def leaning(tensor: torch.Tensor) -> torch.Tensor:
    """A matrix of parameters with its own spread added or subtracted: products with a row of one sign have one, too."""
    if tensor.dim() < 2 or tensor.numel() < 2:
        return tensor
    return tensor + (1.0 if torch.rand(()) < 0.5 else -1.0) * tensor.std()


def kinds_of(shape: torch.Size, far: Far, kept: tuple[int, ...]) -> torch.Tensor:
    """What each row of a tensor of `shape` is (on the CPU): about half of them NEAR, the rows `kept` among them."""
    rows = shape[:-1].numel()
    if far.whole:
        return _all_below(shape, far)
    found = torch.full((rows,), NEAR, dtype=torch.int8)
    free = torch.ones(rows, dtype=torch.bool)
    free[list(kept)] = False
    order = torch.randperm(rows)
    order = order[free[order]][: (rows + 1) // 2]
    kinds = torch.tensor(far.kinds, dtype=torch.int8)
    found[order] = kinds[(torch.arange(len(order)) + int(torch.randint(len(kinds), ()))) % len(kinds)]
    _slabs(found, shape, far, kept)
    return found


def _all_below(shape: torch.Size, far: Far) -> torch.Tensor:
    """Every row APART, those of one place of the first long dimension LOW."""
    found = torch.full(shape[:-1], APART, dtype=torch.int8)
    dim = next((dim for dim, size in enumerate(shape[:-1]) if size > 1), None)
    if far.level and dim is not None:
        found.select(dim, int(torch.randint(shape[dim], ()))).fill_(LOW)
    return found.reshape(-1)


def _slabs(found: torch.Tensor, shape: torch.Size, far: Far, kept: tuple[int, ...]) -> None:
    """Of three dimensions or more, a place of the first is BELOW wherever it is, and some of the second ABOVE."""
    if len(shape) < 3:
        return
    kinds = found.view(shape[:-1])
    places = torch.unravel_index(torch.tensor(kept), shape[:-1])
    for dim, kind in enumerate((BELOW, ABOVE) if far.channels and far.above else (BELOW,)):
        left = sorted(set(range(min(shape[dim], len(kept) + 4))) - set(places[dim].tolist()))
        for place in torch.randperm(len(left))[: CHANNELS if dim and shape[dim] >= 2 * CHANNELS else 1].tolist():
            kinds.select(dim, left[place]).fill_(kind)


def put(rows: torch.Tensor, kinds: torch.Tensor, far: Far) -> None:
    """Make every row (first dimension) of `rows` what its kind says, in place."""
    kinds = kinds.to(rows.device)
    for kind in (*far.kinds, LOW):
        at = (kinds == kind).nonzero()[:, 0]
        if len(at):
            rows[at] = _content(rows[at], kind, far)


def segmented(row: torch.Tensor, far: Far) -> torch.Tensor:
    """One row in segments: the first as it is, each of the others of a kind."""
    parts = [part.clone() for part in row.chunk(SEGMENTS)]
    for part, kind in zip(parts[1:], far.kinds, strict=False):
        part.copy_(_content(part[None], kind, far)[0])
    return torch.cat(parts)


def _content(rows: torch.Tensor, kind: int, far: Far) -> torch.Tensor:
    out = torch.randn_like(rows)
    if kind in (LOW, HIGH):
        return out.fill_(far.level if kind == HIGH else -far.level)
    if kind == PEAK:
        width = rows.shape[1]
        place = torch.randint(width, (len(rows), 1), device=rows.device)
        last = torch.rand(len(rows), 1, device=rows.device) < 0.5
        height = far.by * far.highest ** torch.rand(len(rows), 1, device=rows.device)
        last[0], height[0] = True, far.by * far.highest
        return out.scatter_(1, torch.where(last, width - 1, place), height.to(out.dtype))
    if kind == APART:
        apart = far.by * (1 + (FARTHEST - 1) * torch.rand(len(rows), 1, device=rows.device))
        return out + (apart * torch.randn_like(apart).sign() if far.above else -apart).to(out.dtype)
    return out + (far.by if kind == ABOVE else -far.by)
