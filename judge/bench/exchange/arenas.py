"""Memory that two children share: the referee writes inputs into it and reads outputs from it, as raw bytes.

On the CPU a sealed memfd (neither side can shrink it under the other); on CUDA a plain device allocation opened in the
other process by IPC handle, or, when the driver refuses that, the memfd with copies. Bands around every slot are
filled with a pattern, so a stray write is seen.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from dataclasses import dataclass
from typing import Any

import torch

from judge.bench.device.gpu import allocate_shared, open_shared, over_memory, settle
from judge.bench.exchange.nested import TensorMeta
from judge.values import JudgeError

ALIGN = 256
BAND = 1024  # bytes of pattern on each side of a slot
PATTERN = 0xFF  # a NaN of every floating type: who reads past an end finds no number that a zero could cancel
JITTER = 16  # a slot may start up to this many ALIGN steps later than it could
F_ADD_SEALS, SEALS = 1033, 0x1 | 0x2 | 0x4  # no more seals, no shrinking, no growing


@dataclass(frozen=True)
class Slot:
    """Place of one tensor in the arena, in bytes."""

    offset: int
    meta: TensorMeta

    def to_json(self) -> dict[str, Any]:
        return {"offset": self.offset, **self.meta.to_json()}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Slot:
        return cls(int(row["offset"]), TensorMeta.from_json(row))


class Arena:
    """A flat uint8 tensor `memory` both sides see; `device` is where subjects want their tensors."""

    def __init__(self, memory: torch.Tensor, device: str, kind: str, buffer: Any = None) -> None:
        self.memory = memory
        self.device = device
        self.kind = kind  # "memfd", "ipc" or "host-copies"
        self.buffer = buffer  # the mmap behind a host arena

    @property
    def shared_in_place(self) -> bool:
        return bool(self.memory.device.type == torch.device(self.device).type)

    def view(self, slot: Slot) -> torch.Tensor:
        """The slot itself, as a tensor over the shared memory."""
        end = slot.offset + slot.meta.nbytes
        if slot.offset < 0 or end > self.memory.numel():
            raise JudgeError("slot outside the arena")
        flat = self.memory[slot.offset : end].view(slot.meta.torch_dtype)
        return flat.as_strided(slot.meta.shape, slot.meta.stride, flat.storage_offset())

    def fetch(self, slot: Slot) -> torch.Tensor:
        """The slot as a tensor on the device: in place where the memory is there, else a copy."""
        if not self.shared_in_place:
            return self.view(slot).to(self.device)
        return self._own_storage(slot)

    def give_back(self, slot: Slot, fetched: torch.Tensor) -> None:
        """Let the other side see what became of a fetched tensor; where it lies in place, it does already."""
        if not self.shared_in_place:
            self.put(slot, fetched)

    def _own_storage(self, slot: Slot) -> torch.Tensor:
        """A tensor in the slot that shares no storage and no version counter with other slots.

        The interpreter's bounds are then the tensor's own, and a new tensor at an old address looks as it would
        anywhere: what is written to other slots does not count as a change of this one.
        """
        meta = slot.meta
        if meta.extent == 0:
            return torch.empty(meta.shape, dtype=meta.torch_dtype, device=self.device)
        if self.memory.device.type == "cpu":
            flat = torch.frombuffer(self.buffer, dtype=meta.torch_dtype, count=meta.extent, offset=slot.offset)
        else:
            span = over_memory(self.view(slot).data_ptr(), meta.nbytes, self.device)
            flat = span.view(meta.torch_dtype)
        return flat.as_strided(meta.shape, meta.stride)

    def put(self, slot: Slot, tensor: torch.Tensor) -> None:
        slot.meta.once(self.view(slot)).copy_(slot.meta.once(tensor))

    def fill_gaps(self, slot: Slot, tensor: torch.Tensor) -> None:
        """Between the elements of a tensor with gaps, more of its elements: whoever takes it for contiguous reads wrong
        numbers, but no index that is none."""
        gaps = slot.meta.extent - tensor.numel()
        if gaps > 0 and tensor.numel():
            flat = self.memory[slot.offset : slot.offset + slot.meta.nbytes].view(slot.meta.torch_dtype)
            values = tensor.reshape(-1)
            for start in range(0, flat.numel(), values.numel()):
                part = flat[start : start + values.numel()]
                part.copy_(values[: part.numel()])

    def fill_bands(self, slots: list[Slot]) -> None:
        for before, after in (self._bands(slot) for slot in slots):
            before.fill_(PATTERN)
            after.fill_(PATTERN)

    def broken_band(self, slots: list[Slot]) -> int | None:
        """Number of the first slot whose band was written to, or None."""
        for number, slot in enumerate(slots):
            if any(bool((band != PATTERN).any()) for band in self._bands(slot)):
                return number
        return None

    def _bands(self, slot: Slot) -> tuple[torch.Tensor, torch.Tensor]:
        end = slot.offset + slot.meta.nbytes
        return self.memory[slot.offset - BAND : slot.offset], self.memory[end : end + BAND]


def plan(metas: list[TensorMeta], start: int = 0, jitter: int = 0) -> tuple[list[Slot], int]:
    """Slots for `metas` from byte `start` on, `jitter` ALIGN steps later; and the first free byte after them."""
    at = start + jitter * ALIGN
    slots = []
    for meta in metas:
        at = _up(at + BAND)
        slots.append(Slot(at, meta))
        at += meta.nbytes + BAND
    return slots, _up(at)


def capacity(metas: list[TensorMeta]) -> int:
    """Bytes that hold `metas` at any jitter."""
    return plan(metas, 0, JITTER)[1] + ALIGN


def _up(value: int) -> int:
    return -(-value // ALIGN) * ALIGN


def host_arena(size: int, device: str) -> tuple[Arena, int]:
    """A new memfd arena of `size` bytes and its descriptor, to be sent to the other side."""
    fd = os.memfd_create("arena", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, F_ADD_SEALS, SEALS)
    return open_host_arena(fd, size, device), fd


def open_host_arena(fd: int, size: int, device: str) -> Arena:
    buffer = mmap.mmap(fd, size)
    kind = "memfd" if device == "cpu" else "host-copies"
    return Arena(torch.frombuffer(buffer, dtype=torch.uint8), device, kind, buffer)


def offer_arena(size: int, device: str, *, in_place: bool = True) -> tuple[Arena, dict[str, Any], tuple[int, ...]]:
    """A new arena, the message that lets the other side open it, and the descriptors to send along (close them then).

    `in_place` False offers host memory to a CUDA subject, to be copied. Raises IpcRefused when the driver cannot
    export device memory.
    """
    if device == "cpu" or not in_place:
        arena, fd = host_arena(size, device)
        return arena, {"kind": "memfd", "bytes": size}, (fd,)
    memory, handle = allocate_shared(size, device)
    return Arena(memory, device, "ipc"), {"kind": "ipc", "bytes": size, "handle": handle}, ()


class Arenas:
    """Offers memory to one child after another. Device memory is used again once its child is dead: the driver keeps
    what was shared for as long as the process lives."""

    def __init__(self) -> None:
        self._free: list[tuple[Arena, dict[str, Any]]] = []
        self._lent: list[tuple[Arena, dict[str, Any]]] = []

    def offer(self, size: int, device: str, *, in_place: bool) -> tuple[Arena, dict[str, Any], tuple[int, ...]]:
        """As `offer_arena`, of at least `size` bytes; nothing of an earlier child is left in it."""
        for number, (arena, offer) in enumerate(self._free):
            if in_place and arena.memory.numel() >= size:
                del self._free[number]
                arena.memory.fill_(PATTERN)
                settle(device)  # before the other side can look
                self._lent.append((arena, offer))
                return arena, offer, ()
        arena, offer, fds = offer_arena(size, device, in_place=in_place)
        if offer["kind"] == "ipc":
            self._lent.append((arena, offer))
        return arena, offer, fds

    @property
    def device_bytes(self) -> int:
        """Device memory that it has ever made: it is never freed."""
        return sum(arena.memory.numel() for arena, _ in (*self._free, *self._lent))

    def returned(self, arena: Arena) -> None:
        """The child that had it is dead."""
        self._free += [row for row in self._lent if row[0] is arena]
        self._lent = [row for row in self._lent if row[0] is not arena]

    def back(self, kept: Arena | None = None) -> None:
        """The children that had them are gone, all but the one that has `kept`."""
        self._free += [row for row in self._lent if row[0] is not kept]
        self._lent = [row for row in self._lent if row[0] is kept]


def open_arena(offer: dict[str, Any], fds: list[int], device: str) -> Arena:
    """The other side of an offered arena. Raises IpcRefused when the driver refuses the handle."""
    size = int(offer["bytes"])
    if offer["kind"] == "ipc":
        return Arena(open_shared(offer["handle"], size, device), device, "ipc")
    if len(fds) != 1:
        raise JudgeError("a memfd arena needs exactly one descriptor")
    try:
        return open_host_arena(fds[0], size, device)
    finally:
        os.close(fds[0])
