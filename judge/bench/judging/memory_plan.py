"""Whether a problem's copies fit the device all at once, told before they are made, and how it is judged if not.

A problem of ordinary size is judged whole: every question keeps its inputs, the answer in fp64 and what comparisons
need. One that would take more than SHARE of the memory is judged leanly: one question at a time, the oracle computed in
slices whenever it is compared with, and memory given back before another process works.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch

from judge.values.units import gib

JUDGING = "judging it"
SHARE = 0.6  # of the memory that may be had: the allocator keeps blocks of sizes that nobody asks for again
MOST = 0.95  # of the memory, where nothing stays that is not in use
WHOLE, SLICES, OWN = "whole, in fp64", "in slices, in fp64", "the reference in its own type"


@dataclass(frozen=True)
class MemoryPlan:
    """Sizes in bytes of one question's inputs and outputs, of the parameters, and of what one forward takes beyond its
    inputs at its peak. `room`: what the referee and its children may hold together. `widened`: fp64 over the type.
    """

    inputs: int
    outputs: int
    state: int
    forward: int
    room: float
    widened: int

    @classmethod
    def of(
        cls,
        inputs: list[torch.Tensor],
        outputs: list[torch.Tensor],
        state: list[torch.Tensor],
        taken: float | None,
        room: float,
    ) -> Self:
        """From one run on a copy of `inputs`. `taken`: bytes at its peak, the copy included; None where nobody counts
        them: then a forward is taken to hold its inputs once, and its outputs twice."""
        given, made, own = (sum(tensor.nbytes for tensor in tensors) for tensors in (inputs, outputs, state))
        peak = given + 2 * made if taken is None else int(taken) - given
        narrow = min((tensor.itemsize for tensor in outputs if tensor.is_floating_point()), default=8)
        return cls(given, made, own, max(peak, made), room, max(1, 8 // narrow))

    @property
    def whole(self) -> int:
        """Judging whole: two questions with fp64 answers, fp64 at work, candidate and eager with their own memory."""
        questions = 2 * (self.inputs + self.outputs + self.widened * self.outputs)
        oracle = self.widened * (self.inputs + self.forward + 2 * self.outputs + self.state)
        return questions + oracle + 2 * (self.arena + self.inputs) + 2 * (self.forward + self.state) + self.outputs

    @property
    def arena(self) -> int:
        """What the referee shares with one child."""
        return self.inputs + self.outputs + self.state

    @property
    def least(self) -> int:
        """Judging leanly: both children's arenas, one question, a copy of the answer, and one forward at a time."""
        return 2 * (self.arena + self.state) + 2 * self.inputs + 2 * self.outputs + self.forward

    @property
    def lean(self) -> bool:
        return self.whole > SHARE * self.room

    def by_turns(self, taken: Sequence[int]) -> bool:
        """Whether children that keep what their calls took (bytes of each, as far as it has said), or what a forward of
        the reference takes, are too much beside the referee at work."""
        kept = sum(self.arena + self.state + max(each, self.forward) for each in taken)
        return self.lean and kept + self.inputs + 2 * self.outputs + self.slice_bytes > MOST * self.room

    @property
    def slice_bytes(self) -> float:
        """What a slice of the oracle may take."""
        return self.room / 32

    @property
    def in_slice(self) -> int:
        """What the whole would take as one slice."""
        return 2 * self.widened * (self.inputs + self.forward + self.outputs)

    @property
    def words(self) -> str:
        """What is needed and what there is."""
        return f"{JUDGING} takes about {gib(self.least)}, and {gib(self.room)} can be had on this device"

    def to_json(self) -> dict[str, Any]:
        """For the outcome's environment."""
        sizes = {name: getattr(self, name) for name in ("inputs", "outputs", "state", "forward", "whole", "least")}
        return {
            **{f"{name}_bytes": size for name, size in sizes.items()},
            "lean": self.lean,
            "room_bytes": int(self.room) if math.isfinite(self.room) else None,
        }
