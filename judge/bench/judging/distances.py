"""How far each format's answer is from fp64, added up over pieces of one tensor."""

from __future__ import annotations

import torch

from judge.bench.exchange.parts import all_equal
from judge.bench.judging.precision import Errors, Gathered, coarse_kind, row_weights


class Distances:
    """How far one tensor of the answer is from fp64 in each format, added up piece by piece."""

    def __init__(self, same: torch.Tensor, *, by_rows: bool) -> None:
        self.same = same
        self.by_rows = by_rows
        self.integer = not same.is_floating_point() and not same.is_complex()
        self.other: torch.Tensor | None = None  # an integer as fp64 decides it, where that differs
        self.own = Gathered()
        self.coarse: list[Gathered] = []
        self.rounded: Gathered | None = None
        self.cut: Gathered | None = None
        self._largest = Gathered()

    def add(
        self,
        at: slice,
        exact: torch.Tensor,
        coarse: list[torch.Tensor],
        rounded: torch.Tensor | None,
        cut: torch.Tensor | None,
    ) -> None:
        """The formats' answers for rows `at`; `exact` is the one in fp64."""
        same = self.same[at] if self.same.dim() else self.same
        if self.integer:
            if not all_equal(same, exact):
                self.other = self.same.clone() if self.other is None else self.other
                (self.other[at] if self.same.dim() else self.other).copy_(exact)
            return
        weights = row_weights(exact) if self.by_rows else None
        self.own.add(same, exact, weights)
        if coarse_kind(same.dtype) and not self.coarse:
            self.coarse = [Gathered() for _ in coarse]
        for tally, found in zip(self.coarse, coarse, strict=False):
            tally.add(found, exact, weights)
        if rounded is not None:
            self.rounded = self.rounded or Gathered()
            self.rounded.add(rounded, exact, weights)
        if cut is not None:
            self.cut = self.cut or Gathered()
            self.cut.add(cut, exact)
        self._largest.add(exact.new_zeros(()), exact, weights)

    def reach(self) -> Errors:
        """RMS and largest magnitude of the oracle, over its spread; zeros where one is not finite."""
        found = self._largest.errors()
        return found if found.finite else Errors(0.0, 0.0)
