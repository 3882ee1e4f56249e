"""Copies of a kernel's tensors to try it on: in-place and atomic kernels may then run as often as one likes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from judge.bench.foreign.aliasing import address_range

ALIGN = 512  # what the allocator gives; a copy keeps the original's place relative to it


@dataclass
class _Span:
    """Bytes [low, high) of one storage that the arguments use, and their copy."""

    storage: torch.UntypedStorage
    low: int
    high: int
    device: torch.device
    copy: torch.Tensor | None = None

    def original(self) -> torch.Tensor:
        whole = torch.empty(0, dtype=torch.uint8, device=self.device)
        return whole.set_(self.storage, self.low - self.storage.data_ptr(), (self.high - self.low,), (1,))

    def make_copy(self) -> None:
        room = torch.empty(self.high - self.low + ALIGN, dtype=torch.uint8, device=self.device)
        start = (self.low - room.data_ptr()) % ALIGN
        self.copy = room[start : start + self.high - self.low]
        self.copy.copy_(self.original())


class Scratch:
    """`args` and `kwargs` with every tensor replaced by a copy that keeps layout, alignment and who shares memory.

    With `room_bytes` too small the tensors themselves are used, as Triton would.
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], room_bytes: int) -> None:
        self._spans = _merged(list(_tensors([args, kwargs])))
        self.copied = sum(span.high - span.low + ALIGN for span in self._spans) <= room_bytes
        if self.copied:
            for span in self._spans:
                span.make_copy()
        self.args: tuple[Any, ...] = self._swapped(args)
        self.kwargs: dict[str, Any] = self._swapped(kwargs)
        self._written: list[_Span] | None = None

    def note_written(self) -> None:
        """After a first run: find out which memory the kernel writes. Only that is restored from now on."""
        if self.copied and self._written is None:
            self._written = [span for span in self._spans if not _equal(span)]

    def restore(self) -> None:
        """The arguments as they were before anything ran."""
        for span in self._written or ():
            assert span.copy is not None
            span.copy.copy_(span.original())

    def _swapped(self, value: Any) -> Any:
        if not self.copied:
            return value
        if isinstance(value, torch.Tensor):
            return self._swap(value) if value.numel() else value
        if isinstance(value, tuple | list):
            items = [self._swapped(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, dict):
            return {key: self._swapped(item) for key, item in value.items()}
        if isinstance(getattr(value, "base", None), torch.Tensor):  # a tensor descriptor; hooks may change it, too
            stand_in = copy.copy(value)
            stand_in.base = self._swapped(value.base)
            return stand_in
        return value

    def _swap(self, tensor: torch.Tensor) -> torch.Tensor:
        at = tensor.data_ptr()
        span = next(span for span in self._spans if span.low <= at < span.high)
        assert span.copy is not None
        offset = span.copy.storage_offset() + at - span.low
        stand_in = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return stand_in.set_(
            span.copy.untyped_storage(), offset // tensor.dtype.itemsize, tensor.size(), tensor.stride()
        )


def _equal(span: _Span) -> bool:
    return span.copy is not None and bool(torch.equal(span.copy, span.original()))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        if value.numel():
            yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(getattr(value, "base", None), torch.Tensor):
        yield from _tensors(value.base)


def _merged(tensors: list[torch.Tensor]) -> list[_Span]:
    """What the tensors use of their storages, overlaps joined."""
    found = sorted((_span_of(tensor) for tensor in tensors), key=lambda span: span.low)
    merged: list[_Span] = []
    for span in found:
        last = merged[-1] if merged else None
        if last is not None and span.low < last.high and span.storage.data_ptr() == last.storage.data_ptr():
            last.high = max(last.high, span.high)
        else:
            merged.append(span)
    return merged


def _span_of(tensor: torch.Tensor) -> _Span:
    return _Span(tensor.untyped_storage(), *address_range(tensor), tensor.device)
