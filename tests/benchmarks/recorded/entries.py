"""A kernel that a recorded search published, and what was said of it there. Standard library only."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from judge.values import ProblemSpec, Verdict, canonical_hash


class Published(StrEnum):
    """What the recording says became of a kernel."""

    FASTER = "correct, faster"  # than eager, on the hardware of the recording
    CORRECT = "correct, not faster"
    WRONG = "wrong"
    COMPILE_ERROR = "compile error"
    CRASHED = "crashed"
    NOT_LOADED = "not loaded"
    BAD_SOURCE = "bad source"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"


RIGHT = frozenset({Published.FASTER, Published.CORRECT})
_OF_VERDICT = {
    Verdict.WRONG: Published.WRONG,
    Verdict.COMPILE_FAILED: Published.COMPILE_ERROR,
    Verdict.CRASHED: Published.CRASHED,
    Verdict.LOAD_FAILED: Published.NOT_LOADED,
    Verdict.BAD_SOURCE: Published.BAD_SOURCE,
    Verdict.TIMED_OUT: Published.TIMED_OUT,
    Verdict.OUT_OF_MEMORY: Published.OUT_OF_MEMORY,
}


def published_as(verdict: Verdict, speedup: float | None) -> Published:
    """The class of a published verdict and speedup over eager. Raises KeyError for a verdict nobody publishes."""
    if verdict is Verdict.PASS:
        return Published.FASTER if (speedup or 0.0) > 1 else Published.CORRECT
    return _OF_VERDICT[verdict]


@dataclass(frozen=True)
class Entry:
    """One kernel. `problem` and `step` name its first appearance; `again` tells what became of the same text later."""

    problem: str
    step: int
    spec: ProblemSpec = field(repr=False)
    candidate: str = field(repr=False)
    published: Published
    speedup: float | None = None  # as published, over eager
    error: str = field(default="", repr=False)  # as published
    again: tuple[Published, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.problem}#{self.step}"

    @property
    def hash(self) -> str:
        """Of the candidate, without comments and layout."""
        return canonical_hash(self.candidate)


def distinct(entries: Iterable[Entry]) -> list[Entry]:
    """The first of all that are the same code for the same problem, in order."""
    found: dict[tuple[str, str], Entry] = {}
    for entry in entries:
        key = (entry.spec.hash, entry.hash)
        first = found.get(key)
        found[key] = replace(first, again=(*first.again, entry.published)) if first else entry
    return list(found.values())


def sample(entries: Sequence[Entry], size: int, seed: int) -> list[Entry]:
    """`size` of them, in an order that any beginning of represents: each problem and published outcome comes first
    once, then each as often as its share of the whole asks. The same seed draws the same kernels."""
    strata: dict[tuple[str, Published], list[Entry]] = defaultdict(list)
    for entry in sorted(entries, key=lambda one: _lot(one, seed)):
        strata[one_stratum(entry)].append(entry)
    ranked = []
    for stratum in strata.values():
        for rank, entry in enumerate(stratum):
            due = 0.0 if rank == 0 else (rank + 0.5) / len(stratum)
            ranked.append((rank > 0, due, _lot(entry, seed), entry))
    return [row[-1] for row in sorted(ranked, key=lambda row: row[:3])[: max(0, size)]]


def one_stratum(entry: Entry) -> tuple[str, Published]:
    return entry.problem, entry.published


def _lot(entry: Entry, seed: int) -> str:
    return hashlib.sha256(f"{seed} {entry.problem} {entry.hash}".encode()).hexdigest()
