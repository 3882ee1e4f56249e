"""Counts one launch while the interpreter runs it: bytes, distinct sectors, FLOPs."""

from __future__ import annotations

from collections import Counter

import numpy as np

from judge.bench.interpreting.bounds import BoundsTable, Pointers, Span
from judge.bench.interpreting.traffic import SECTOR_BYTES, LaunchTraffic

_SHIFT = np.uint64(SECTOR_BYTES.bit_length() - 1)


class LaunchCounter:
    """The running counts of one launch. `active` False makes every method return at once."""

    def __init__(self, name: str, bounds: BoundsTable, *, active: bool) -> None:
        self.name = name
        self.bounds = bounds
        self.active = active
        self.programs = 0
        self.accesses = 0
        self.logical_bytes = 0
        self.sectors = 0
        self.elementwise_flops = 0
        self.dot_flops: Counter[str] = Counter()
        self._seen: dict[str, _SectorSet] = {}

    def access(self, pointers: Pointers, size: int, direction: str) -> None:
        """Count one load or store of `size` bytes at each pointer; `direction` is "read" or "write"."""
        if not self.active or pointers.size == 0:
            return
        self.accesses += 1
        self.logical_bytes += pointers.size * size
        sectors = _distinct_sectors(pointers, size)
        self.sectors += sectors.size
        seen = self._seen.get(direction)
        if seen is None:
            seen = self._seen[direction] = _SectorSet(self.bounds.spans)
        seen.add(sectors)

    def arithmetic(self, elements: int) -> None:
        if self.active:
            self.elementwise_flops += elements

    def dot(self, kind: str, flops: int) -> None:
        if self.active:
            self.dot_flops[kind] += flops

    def result(self) -> LaunchTraffic:
        return LaunchTraffic(
            name=self.name,
            origin="triton",
            programs=self.programs,
            logical_bytes=self.logical_bytes,
            sector_bytes=self.sectors * SECTOR_BYTES,
            unique_bytes=sum(seen.count() for seen in self._seen.values()) * SECTOR_BYTES,
            elementwise_flops=self.elementwise_flops,
            dot_flops=dict(self.dot_flops),
            accesses=self.accesses,
        )


def _distinct_sectors(pointers: Pointers, size: int) -> Pointers:
    """Sorted distinct sector numbers of one access. A dense ascending run, the common case, needs no sort."""
    flat = pointers.reshape(-1)
    first, last = flat[0], flat[-1]
    if int(last) - int(first) == (flat.size - 1) * size and bool((flat[1:] > flat[:-1]).all()):
        return np.arange(first >> _SHIFT, (last >> _SHIFT) + np.uint64(1), dtype=np.uint64)
    sectors = np.sort(flat >> _SHIFT)
    keep = np.ones(sectors.size, dtype=bool)
    np.not_equal(sectors[1:], sectors[:-1], out=keep[1:])
    return sectors[keep]


class _SectorSet:
    """Distinct sectors of one direction: a bitmap per storage, so nothing is kept per access."""

    def __init__(self, spans: list[Span]) -> None:
        self._maps = {
            span.start: (span.start // SECTOR_BYTES, np.zeros((span.stop - span.start) // SECTOR_BYTES + 2, dtype=bool))
            for span in spans
            if span.stop > span.start
        }
        self._strays: set[int] = set()

    def add(self, sectors: Pointers) -> None:
        low, high = int(sectors[0]), int(sectors[-1])
        for base, marks in self._maps.values():
            if base <= low and high < base + marks.size:
                marks[(sectors - np.uint64(base)).astype(np.intp)] = True
                return
        self._strays.update(sectors.tolist())

    def count(self) -> int:
        return len(self._strays) + sum(int(np.count_nonzero(marks)) for _, marks in self._maps.values())
