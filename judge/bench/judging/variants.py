"""A sealed case put on a problem: other constants, and what is changed about the inputs that they make."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from judge.bench.exchange.nested import mapped, packed
from judge.bench.foreign.loading import LoadedProblem
from judge.bench.judging.families import strided
from judge.values import SealedCase

SPECIAL = (0.0, -0.0, 1.0, -1.0)  # beside the least numbers of the type, and one of the size that the change names
SPECIAL_SHARE = 0.2  # of the elements


def applied(loaded: LoadedProblem, case: SealedCase) -> LoadedProblem | None:
    """`loaded` under `case`, whose constants are set in its module; None where the module lacks one of them.

    Raises ValueError for a change that nobody knows.
    """
    change = change_of(case.change) if case.change else None
    for constant, value in case.constants.items():
        if not hasattr(loaded.module, constant):
            return None
        as_tuple = isinstance(getattr(loaded.module, constant), tuple) and isinstance(value, list)
        setattr(loaded.module, constant, tuple(value) if as_tuple else value)  # JSON knows no tuples
    if change is None:
        return loaded
    made = loaded.get_inputs
    return dataclasses.replace(loaded, get_inputs=lambda: change(listed(made())))


def listed(made: Any) -> list[Any]:
    """What get_inputs() returned as a list of arguments."""
    return [made] if isinstance(made, torch.Tensor) else list(made)


def change_of(text: str) -> Callable[[list[Any]], list[Any]]:
    """The change that a text names. Each takes a list of arguments and leaves it alone.

    "strided": no tensor is contiguous. "special SIZE": zeros, the least numbers and some of that size among the values.
    "resized D N": N elements along dimension D wherever the first tensor's size there occurs there.
    "broadcast I D": argument I has one element along dimension D. Raises ValueError.
    """
    name, _, rest = text.partition(" ")
    numbers = rest.split()
    try:
        if name == "strided" and not numbers:
            return lambda inputs: list(strided(inputs))
        if name == "special":
            (size,) = map(float, numbers)
            return lambda inputs: list(mapped(lambda tensor: with_special(tensor, size), inputs))
        one, other = map(int, numbers)
    except (TypeError, ValueError):
        raise ValueError(f"{text!r} is no change of inputs") from None
    if name == "resized":
        return lambda inputs: _resized(inputs, one, other)
    if name == "broadcast":
        return lambda inputs: _broadcast(inputs, one, other)
    raise ValueError(f"{text!r} is no change of inputs")


def with_special(tensor: torch.Tensor, size: float) -> torch.Tensor:
    """`tensor` with SPECIAL_SHARE of its elements replaced by special numbers; integers and booleans as they are."""
    if not tensor.is_floating_point() or not tensor.numel():
        return tensor
    facts = torch.finfo(tensor.dtype)
    numbers = [*SPECIAL, facts.tiny, -facts.tiny, facts.tiny / 4, size, -size]
    drawn = torch.tensor(numbers, dtype=tensor.dtype, device=tensor.device)
    placed = drawn[torch.randint(len(numbers), tensor.shape, device=tensor.device)]
    return torch.where(torch.rand(tensor.shape, device=tensor.device) < SPECIAL_SHARE, placed, tensor)


def _resized(inputs: list[Any], dim: int, size: int) -> list[Any]:
    first = packed(inputs)[1][0]
    if not 0 <= dim < first.dim() or size < 1 or not first.shape[dim]:
        raise ValueError(f"the first tensor has no dimension {dim} that could have {size} elements")
    known = first.shape[dim]
    return list(mapped(lambda tensor: _taken(tensor, dim, known, size), inputs))


def _taken(tensor: torch.Tensor, dim: int, known: int, size: int) -> torch.Tensor:
    """Its first `size` slices along `dim`, begun anew where it has fewer."""
    if tensor.dim() <= dim or tensor.shape[dim] != known:
        return tensor
    return tensor.index_select(dim, torch.arange(size, device=tensor.device) % known)


def _broadcast(inputs: list[Any], number: int, dim: int) -> list[Any]:
    tensor = inputs[number] if 0 <= number < len(inputs) else None
    if not isinstance(tensor, torch.Tensor) or not 0 <= dim < tensor.dim():
        raise ValueError(f"argument {number} has no dimension {dim}")
    return [item.narrow(dim, 0, 1) if index == number else item for index, item in enumerate(inputs)]
