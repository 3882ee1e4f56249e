"""Torch operators on large tensors, shaped but not computed: compiling needs layouts, never values.

Large results are memory that reads as zero and takes no room until somebody writes to it. Small tensors are computed
as ever, so that Python which looks at lengths or options goes the right way.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

LARGE = 1 << 16  # elements of a tensor whose values nobody computes
_VALUES = ("aten::_local_scalar_dense", "aten::equal")  # their answer is no tensor, and the recorder knows of it
_NORESERVE = 0x4000  # MAP_NORESERVE, which Python's mmap names from 3.13 on


def is_large(tensor: torch.Tensor) -> bool:
    return bool(tensor.numel() > LARGE)


def is_part_of_large(tensor: torch.Tensor) -> bool:
    """Whether its values, few as they may be, lie in memory that nobody has filled."""
    if tensor.is_meta or tensor.layout is not torch.strided:
        return is_large(tensor)
    return bool(tensor.untyped_storage().nbytes() > LARGE * tensor.itemsize)


def blank(shape: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    """A strided CPU tensor that reads as zero; its pages come into being when written."""
    elements = 0 if 0 in shape else 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    if elements == 0:
        return torch.empty(tuple(shape), dtype=dtype)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    memory = mmap.mmap(-1, elements * dtype.itemsize, flags=flags)
    return torch.frombuffer(memory, dtype=dtype).as_strided(tuple(shape), tuple(stride))


class Uncomputed(TorchDispatchMode):  # type: ignore[misc]
    """Within it no operator works on large tensors. `skipped` counts those that would have, or saw parts of them."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.is_view or func._schema.name in _VALUES:
            return func(*args, **kwargs)
        given = list(_tensors((args, kwargs)))
        if any(tensor.is_meta for tensor in given):
            return func(*args, **kwargs)
        large = any(map(is_large, given))
        self.skipped += not large and any(map(is_part_of_large, given))
        if func._schema.is_mutable:
            return self._unchanged(func, args, kwargs) if large else func(*args, **kwargs)
        if not large and given and not _may_grow(given):
            return func(*args, **kwargs)
        shaped = _shaped(func, args, kwargs)
        if shaped is None or not (large or any(map(is_large, _tensors(shaped)))):
            return func(*args, **kwargs)
        self.skipped += 1
        return tree_map_only(torch.Tensor, lambda t: blank(t.shape, t.stride(), t.dtype), shaped)

    def _unchanged(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What an operator that writes in place returns: the tensors it was given to write to."""
        self.skipped += 1
        written = [
            kwargs.get(argument.name, args[number] if number < len(args) else None)
            for number, argument in enumerate(func._schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        count = len(func._schema.returns)
        return None if count == 0 else written[0] if count == 1 else tuple(written[:count])


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor))


def _may_grow(given: list[torch.Tensor]) -> bool:
    """Small tensors can make a large one by broadcasting, outer products or repetition."""
    return bool(sum(tensor.numel() for tensor in given) > LARGE >> 6)


def _shaped(func: Any, args: Any, kwargs: Any) -> Any:
    """The result on the meta device; None where torch cannot tell it without values."""
    to_meta = tree_map_only(torch.Tensor, lambda t: t.to("meta"), (args, kwargs))
    meta_args, meta_kwargs = to_meta
    if "device" in {argument.name for argument in func._schema.arguments}:
        meta_kwargs = {**meta_kwargs, "device": torch.device("meta")}
    try:
        return func(*meta_args, **meta_kwargs)
    except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
        return None  # also for a genuine error: the operator itself then says it better
