"""Tensors by their layout alone: what compiling needs of a problem. Small ones are carried as they are.

Both ends follow one rule: a tensor of more than LARGE elements is not written by the side that asks, and reads as
zero, without taking memory, on the side that compiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from judge.bench.exchange.arenas import Arena, Slot, plan
from judge.bench.exchange.claims import StateTaken
from judge.bench.exchange.contact import Contact
from judge.bench.exchange.nested import TensorMeta
from judge.bench.exchange.uncomputed import LARGE, blank


def carried(meta: TensorMeta) -> bool:
    """Whether the values of such a tensor travel."""
    return math.prod(meta.shape) <= LARGE


class SketchArena(Arena):
    """A subject's view of an arena that holds small tensors only."""

    def __init__(self, arena: Arena) -> None:
        super().__init__(arena.memory, arena.device, arena.kind, arena.buffer)

    def fetch(self, slot: Slot) -> torch.Tensor:
        if carried(slot.meta):
            return super().fetch(slot)
        return blank(slot.meta.shape, slot.meta.stride, slot.meta.torch_dtype)

    def give_back(self, slot: Slot, fetched: torch.Tensor) -> None:
        """Nobody looks at inputs after a call that computed nothing."""

    def put(self, slot: Slot, tensor: torch.Tensor) -> None:
        """Nor at outputs."""


class SketchContact(Contact):
    """Asks a recorder: large tensors go as layouts."""

    def make_arena(self, metas: list[TensorMeta], others: list[TensorMeta]) -> None:
        super().make_arena(list(filter(carried, metas)), list(filter(carried, others)))

    def place(self, tensors: list[torch.Tensor]) -> list[Slot]:
        """Slots of `tensors`; the small ones are written."""
        metas = [TensorMeta.of(tensor) for tensor in tensors]
        small = iter(plan(list(filter(carried, metas)))[0])
        slots = [next(small) if carried(meta) else Slot(0, meta) for meta in metas]
        for slot, tensor in zip(slots, tensors, strict=True):
            if carried(slot.meta):
                self.arena.put(slot, tensor)
        return slots

    def put_state(
        self, state: list[tuple[str, torch.Tensor]], *, hook: bool, again: bool, gradients: Sequence[str] = ()
    ) -> None:
        slots = self.place([tensor for _, tensor in state])
        rows: list[Any] = [[name, slot.to_json()] for slot, (name, _) in zip(slots, state, strict=True)]
        self.ask(StateTaken, state=rows, hook=hook, again=again, gradients=list(gradients))
