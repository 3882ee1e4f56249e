"""The oracle of a question in slices along the first dimension: computed when it is compared with, and kept nowhere.

Element-wise and row-wise references allow it; others (statistics over the batch, scans along it) do not. Nothing is
assumed: in its own type each slice must give what the whole gave, on the content of every question.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch

from judge.bench.exchange.nested import decode, packed
from judge.bench.exchange.parts import all_equal
from judge.bench.judging.memory_plan import MemoryPlan
from judge.bench.judging.parameters import State
from judge.bench.judging.precision import Gathered
from judge.bench.judging.reference import Answer, Reference

NEARLY, NEARLY_16 = 8.0, 1 / 8  # roundings of the type by which a slice may differ from the whole; of 16 bits, in RMS
LONGEST, PER_TERM = 4096, 1 / 16  # a library may sum up another way: more for longer reductions, up to that length
ALIGNED = 64  # rows


class Slices:
    """Runs the reference on rows of one question."""

    def __init__(
        self,
        reference: Reference,
        asked: tuple[list[Any], State, int],
        written: list[int],
        cut: frozenset[int],
        rows: int,
        plan: MemoryPlan,
        *,
        by_rows: bool,
    ) -> None:
        """`cut`: numbers of the input tensors that have those rows; the others are given whole."""
        inputs, self.state, self.seed = asked
        self.reference = reference
        self.written = written
        self.cut = cut
        self.rows = rows
        self.by_rows = by_rows
        step = int(rows * min(1.0, plan.slice_bytes / max(1, plan.in_slice)))
        self.step = max(1, step // ALIGNED * ALIGNED or step)
        self._template, self._tensors = packed(inputs)

    def places(self) -> Iterator[tuple[int, int]]:
        """(first row, rows) of each slice."""
        for start in range(0, self.rows, self.step):
            yield start, min(self.step, self.rows - start)

    def inputs(self, start: int, size: int) -> list[Any]:
        """Inputs of one slice, as views."""

        def get(number: int) -> torch.Tensor:
            tensor = self._tensors[number]
            return tensor.narrow(0, start, size) if number in self.cut else tensor

        return list(decode(self._template, get, self.reference.device))

    def plain(self, place: tuple[int, int]) -> Answer | None:
        """In the problem's own types; None where the reference refuses a part of its inputs."""
        return self.reference.attempt(lambda: self.reference.answer(self.inputs(*place), self.state, self.seed))

    def wide(self, place: tuple[int, int]) -> Answer | None:
        return self.reference.answer_in(torch.float64, self.inputs(*place), self.state, self.seed)

    def exact(self, number: int) -> Iterator[tuple[int, int, torch.Tensor]]:
        """First row, rows and fp64 content of each slice of one output. Raises MemoryError."""
        for start, size in self.places():
            found = self.wide((start, size))
            if found is None:
                raise MemoryError("no memory for a slice of the oracle")
            yield start, size, found.parts(self.written)[number]

    def agree(self, place: tuple[int, int], template: Any, whole: list[torch.Tensor], length: int) -> bool:
        """Whether the slice, in the problem's own types, is what the whole answer has there."""
        found = self.plain(place)
        if found is None or found.template != template or found.state:
            return False
        pairs = zip(found.parts(self.written), whole, strict=True)
        return all(_near(one, tensor.narrow(0, *place), length, tensor) for one, tensor in pairs)


def cuts_of(tensors: list[torch.Tensor], same: Answer, written: list[int]) -> tuple[list[frozenset[int]], int]:
    """Input tensors that may share the rows of all outputs, the likeliest choice first, and the number of rows."""
    parts = same.parts(written)
    rows = parts[0].shape[0] if parts and parts[0].dim() else 0
    if rows < 2 or same.state or any(not part.dim() or part.shape[0] != rows for part in parts):
        return [], 0
    having = [number for number, tensor in enumerate(tensors) if tensor.dim() and tensor.shape[0] == rows]
    choices = [frozenset(having), *(frozenset([number]) for number in having)]
    return [one for one in dict.fromkeys(choices) if one and one.issuperset(written)], int(rows)


def _near(one: torch.Tensor, other: torch.Tensor, length: int, whole: torch.Tensor) -> bool:
    """Whether `one` is `other`, a part of `whole`, but for roundings: of a few rows that are small by chance, too."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if all_equal(one, other):
        return True
    if not one.is_floating_point() and not one.is_complex():
        return False
    roundings = NEARLY_16
    if one.itemsize > 2:
        roundings = NEARLY * max(1.0, PER_TERM * math.sqrt(min(length, LONGEST)))
    limit, found, around = roundings * torch.finfo(one.dtype).eps, Gathered(), Gathered()
    found.add(one, other)
    if found.errors().rms <= limit:
        return True
    around.add(whole, whole)
    return bool(found.errors().rms * found.spread() <= limit * around.spread())


def answered(reference: Reference, inputs: list[Any], seed: int, state: State) -> list[torch.Tensor]:
    """Outputs of one run on `inputs`, in slices where rows were seen to be independent.

    Raises what the reference raises, and MemoryError.
    """
    learned, plan = reference.learned, reference.plan
    if learned is None or plan is None or not plan.lean or learned.cut is None:
        found = reference.outputs(inputs, seed, state)
        reference.relieve()
        return found
    tensors = packed(inputs)[1]
    rows = tensors[min(learned.cut)].shape[0]
    slices = Slices(reference, (inputs, state, seed), [], learned.cut, rows, plan, by_rows=False)
    whole: list[torch.Tensor] = []
    for start, size in slices.places():
        part = slices.plain((start, size))
        if part is None:
            raise MemoryError("no memory for a slice of the reference's answer")
        whole = whole or [tensor.new_empty((rows, *tensor.shape[1:])) for tensor in part.outputs]
        for place, tensor in zip(whole, part.outputs, strict=True):
            place.narrow(0, start, size).copy_(tensor)
    reference.relieve()
    return whole
