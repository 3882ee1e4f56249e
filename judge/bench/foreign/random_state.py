"""The generators a module draws from: set before every call, looked at afterwards; a problem's own seeds are undone."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import torch

MASK = (1 << 63) - 1
Mark = tuple[torch.Tensor, ...]


def reset(seed: int) -> None:
    """Put every generator to `seed`: torch's of all devices, Python's and NumPy's.

    Not by torch.manual_seed: for every backend that is not in use that call formats the stack and keeps it for later.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        for generator in torch.cuda.default_generators:
            generator.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed % (1 << 32))


def mark(device: str) -> Mark:
    """Where torch's generators stand. Needs no wait for the device: a GPU's generator is a seed and an offset."""
    states = [torch.get_rng_state()]
    if device != "cpu":
        states.append(torch.cuda.get_rng_state(device))
    return tuple(states)


def moved(before: Mark, device: str) -> bool:
    """Whether anything was drawn, or a generator was seeded, since `before`."""
    return any(not torch.equal(old, new) for old, new in zip(before, mark(device), strict=True))


@contextmanager
def own_seeds_mixed(seed: int) -> Iterator[None]:
    """Within it, a seed that code sets is mixed with ours.

    A factory that calls torch.manual_seed(0) would return the same numbers every time, and a kernel could know them.
    """
    places: list[tuple[Any, str]] = [
        (torch, "manual_seed"),
        (torch.random, "manual_seed"),
        (torch.cuda, "manual_seed"),
        (torch.cuda, "manual_seed_all"),
        (random, "seed"),
        (numpy.random, "seed"),
    ]
    kept = [(owner, name, getattr(owner, name)) for owner, name in places]
    for owner, name, function in kept:
        setattr(owner, name, _mixing(function, seed, 32 if owner is numpy.random else 63))
    try:
        yield
    finally:
        for owner, name, function in kept:
            setattr(owner, name, function)


def _number(text: str) -> int:
    """The same in every process: `hash` is salted, and modelled times must not depend on the salt."""
    return int.from_bytes(hashlib.sha256(text.encode(errors="replace")).digest()[:8])


def _mixing(function: Callable[..., Any], seed: int, bits: int) -> Callable[..., Any]:
    def call(value: Any = 0, *rest: Any) -> Any:
        number = value if isinstance(value, int) else _number(str(value))
        return function(((number * 0x9E3779B97F4A7C15) ^ seed) & MASK & ((1 << bits) - 1), *rest)

    return call
