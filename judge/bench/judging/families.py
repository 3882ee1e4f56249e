"""Input families: the same shapes with other content, so that a kernel right only on the given numbers is found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import torch

from judge.bench.exchange.nested import mapped
from judge.bench.judging import far_rows
from judge.bench.judging.freedoms import ADVERSARIAL, ANYTHING, SCALED, Freedom
from judge.bench.judging.probes import probed

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


FAMILIES = ("given", "given", "centred", SCALED, ADVERSARIAL)
CENTRED = "centred"  # precision is read on this one: coarse formats show most where the mean is zero
TIES = "ties"  # asked where the reference has a rule for equal elements
CANCELLING, OFFSET = "cancelling", "offset"  # asked where it carries along what sums lose
RESIDUE = 1e-3  # what is left of an element after its partner is added, in the cancelling family
SMALL = (0.004, 0.012)  # factors
FAR = 100.0  # mean over spread in the offset family


def _centred(tensor: torch.Tensor) -> torch.Tensor:
    """Zero mean, unit scale. The content is new; what the problem gave only fixes shape and type."""
    return torch.randn_like(tensor)


def _scaled(tensor: torch.Tensor, small: bool = False) -> torch.Tensor:
    """The given content, spread and shifted by amounts drawn anew. `small`: so little that a variance is of the size of
    what is added to keep it from zero."""
    low, high = (1.5, 4.0) if _wide(tensor) else (1.25, 2.0)
    if small and _wide(tensor):
        low, high = SMALL
    factor = low + (high - low) * float(torch.rand(()))
    shift = (float(torch.rand(())) - 0.5) * 2 * min(1.0, factor)
    return tensor * factor + shift


def _adversarial(tensor: torch.Tensor, freedom: Freedom = ANYTHING, number: int = 0) -> torch.Tensor:
    """Rows of mixed magnitude, two equal rows, a row of zeros, one outlier, rows `far` from zero; without `ties` no
    equal elements, and nothing far, where neighbours would be equal."""
    out = torch.randn_like(tensor).contiguous()
    if out.dim() == 0 or out.numel() == 0:
        return out
    rows = out.reshape(-1, out.shape[-1]) if out.dim() > 1 else out.reshape(1, -1)
    reach = 1.5 if _wide(tensor) else 0.5
    height, width = rows.shape
    outlier = 50.0 if _wide(tensor) else 8.0
    far = freedom.far if freedom.ties else None
    if far is not None and far.shared and number:
        return far_rows.lean(out)
    if far is not None and far.whole:
        far_rows.put(rows, far_rows.kinds_of(out.shape, far, kept=()), far)
        return rows.reshape(out.shape)
    rows *= 10 ** ((torch.rand(height, 1, device=out.device) * 2 - 1) * reach).to(out.dtype)
    if freedom.ties and height > 2:
        half = height // 2
        row = int(torch.randint(height - 2, ()))  # neither the last row nor that of zeros, where it would be lost
        row += row >= half
        if far is not None:
            row = half + 1 + int(torch.randint(height - half - 2, ())) if height - half > 2 else row
            far_rows.put(rows, far_rows.kinds_of(out.shape, far, kept=(row, half, height - 1)), far)
        rows[row, int(torch.randint(width, ()))] = outlier
        rows[-1] = rows[0]
        rows[half] *= 0  # of both signs
    else:
        zeros = width // 8 if freedom.ties and width > 8 else 0
        row = int(torch.randint(height, ()))
        if far is not None and width > far_rows.SEGMENTS:
            rows[row] = far_rows.segmented(rows[row], far)
        else:
            rows[row, zeros + int(torch.randint(width - zeros, ()))] = outlier
            rows[:, :zeros] = 0
    return rows.reshape(out.shape)


def _ties(tensor: torch.Tensor) -> torch.Tensor:
    """Multiples of one half or an eighth: equal elements everywhere, on the edge of a rounding or a threshold."""
    halves = torch.randint(-6, 7, tensor.shape, device=tensor.device, dtype=torch.int8).float() / 2
    fine = torch.randint(0, 4, tensor.shape, device=tensor.device, dtype=torch.int8).float() / 8
    return torch.where(torch.rand(tensor.shape, device=tensor.device) < 0.5, halves, halves + fine).to(tensor.dtype)


def _cancelling(tensor: torch.Tensor) -> torch.Tensor:
    """Every element has its negative along every dimension; what is left of a sum is RESIDUE of what went in."""
    out = torch.ones(tensor.shape, device=tensor.device)
    for dim, size in enumerate(tensor.shape):
        if size >= 4:
            shape = [1] * tensor.dim()
            shape[dim] = size
            out = out * _pairs(size, tensor.device).reshape(shape)
    return (out + RESIDUE * torch.randn_like(out)).to(tensor.dtype)


def _offset(tensor: torch.Tensor) -> torch.Tensor:
    """Far from zero: a running sum loses digits with every step."""
    return (FAR + torch.randn(tensor.shape, device=tensor.device)).to(tensor.dtype)


def _pairs(size: int, device: torch.device) -> torch.Tensor:
    """`size` numbers that cancel in pairs, partners at random places; the odd one is zero."""
    half = torch.rand(size // 2, device=device) + 0.5
    numbers = torch.cat([half, -half, half.new_zeros(size % 2)])
    return numbers[torch.randperm(size, device=device)]


def _wide(tensor: torch.Tensor) -> bool:
    return bool(tensor.dtype.itemsize >= 4)


_CHANGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    CENTRED: _centred,
    SCALED: _scaled,
    ADVERSARIAL: _adversarial,
    TIES: _ties,
    CANCELLING: _cancelling,
    OFFSET: _offset,
}


def reshaped(family: str, value: Any, freedom: Freedom = ANYTHING) -> Any:
    """`value` (nested) with the family applied to every floating tensor. Layout is kept: transposed stays transposed.

    Integers stay as they are, except that the adversarial family draws repeated and extreme ones within their range.
    Booleans stay: they are masks, and one that hides everything has no answer.
    """
    numbers = count()
    return mapped(
        lambda tensor: _changed(family, tensor, freedom, next(numbers) if tensor.is_floating_point() else -1), value
    )


def _changed(family: str, tensor: torch.Tensor, freedom: Freedom, number: int) -> torch.Tensor:
    content = probed(family, tensor.detach(), number) if tensor.is_floating_point() else None
    if content is not None:
        return _laid_out(content, tensor)
    if tensor.is_floating_point() or tensor.is_complex():
        change = _CHANGES.get(family)
        if change is _adversarial:
            change = partial(_adversarial, freedom=freedom, number=number)
        elif change is _scaled:
            change = partial(_scaled, small=freedom.small)
        if change is None:
            return tensor
        return _laid_out(change(tensor.detach()) if tensor.is_floating_point() else _complex(change, tensor), tensor)
    if family == ADVERSARIAL and freedom.indices and tensor.dtype != torch.bool:
        return _laid_out(extreme(tensor), tensor)
    return tensor


def _complex(change: Callable[[torch.Tensor], torch.Tensor], tensor: torch.Tensor) -> torch.Tensor:
    plain = tensor.detach().resolve_conj()
    return torch.complex(change(plain.real.contiguous()), change(plain.imag.contiguous()))


def _laid_out(content: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    if content is like:
        return like
    out = torch.empty_strided(like.shape, writable_stride(like), dtype=like.dtype, device=like.device)
    return out.copy_(content)


def varied(tensor: torch.Tensor) -> torch.Tensor:
    """New content of the same range, for a factory that always gives the same: shuffled, or a smaller constant."""
    if not tensor.is_floating_point() or not bool(tensor.isfinite().all()):
        return tensor
    flat = tensor.reshape(-1)
    if flat.numel() < 2 or bool((flat == flat[0]).all()):
        return tensor * (0.5 + 0.5 * float(torch.rand(())))
    return _laid_out(flat[torch.randperm(flat.numel(), device=flat.device)].reshape(tensor.shape), tensor)


def strided(value: Any) -> Any:
    """`value` (nested) with equal content and another layout: no tensor with two elements is contiguous."""
    return mapped(_strided, value)


def _strided(tensor: torch.Tensor) -> torch.Tensor:
    """The last two long dimensions swapped in memory; a vector gets gaps."""
    long = [dim for dim, size in enumerate(tensor.shape) if size > 1]
    if not long:
        return tensor
    if not tensor.is_contiguous():
        return tensor.contiguous()
    if len(long) > 1:
        one, other = long[-2:]
        return tensor.transpose(one, other).contiguous().transpose(one, other)
    stride = [step * 2 for step in tensor.stride()]
    size = 1 + sum((n - 1) * step for n, step in zip(tensor.shape, stride, strict=True))
    gaps = torch.zeros(size, dtype=tensor.dtype, device=tensor.device).as_strided(tensor.shape, stride)
    return gaps.copy_(tensor)


def writable_stride(tensor: torch.Tensor) -> tuple[int, ...]:
    """The tensor's own strides; those of a contiguous one where elements share memory."""
    overlapping = any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True))
    return tuple(torch.empty(tensor.shape, device="meta").stride()) if overlapping else tuple(tensor.stride())
