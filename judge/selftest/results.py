"""What a self-test found, as a plain value: a row per entry, counts per corpus, whether the device can be believed."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from judge.selftest.entries import Corpus
from judge.values.rebuilding import rebuilt

FALSE_FASTER_RATE = 0.01  # of A/A comparisons


class State(StrEnum):
    RIGHT = "right"  # what must happen happened
    MISSED = "missed"  # an attack or a bug passed, or an honest kernel was rejected
    REASON = "reason"  # rejected, but for a reason that is not the one
    LOST = "lost"  # the judge itself failed


@dataclass(frozen=True)
class EntryResult:
    """What became of one entry. For A/A entries `faster` of `comparisons` were called FASTER."""

    corpus: Corpus
    id: str
    title: str
    bench: str  # kind of bench it ran on
    state: State
    verdict: str
    reason: str = ""
    message: str = ""
    expected: str = ""
    findings: tuple[str, ...] = ()
    number: int | None = None
    wall_ms: float = 0.0
    comparisons: int = 0
    faster: int = 0
    size: str = ""  # of an A/A entry: the class of calls it speaks for


@dataclass(frozen=True)
class CorpusCount:
    """Counts of one corpus: `n` is the sum of the others, except for A/A, where it counts comparisons."""

    corpus: Corpus
    n: int
    right: int
    missed: tuple[str, ...] = ()
    reason: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    wall_ms: float = 0.0

    @property
    def red(self) -> bool:
        return bool(self.missed or self.reason or self.lost)


@dataclass(frozen=True)
class SizeCount:
    """A/A comparisons of one class of calls. `wall_ms` is that of all of them."""

    size: str
    comparisons: int
    faster: int
    wall_ms: float

    @property
    def red(self) -> bool:
        """Whether more of them were false wins than one, or than one of a hundred."""
        return self.faster > max(1.0, FALSE_FASTER_RATE * self.comparisons)


@dataclass(frozen=True)
class Report:
    """One self-test of one device. `environment` is the bench's facts; times are seconds since the epoch."""

    device: str
    protocol: str
    started: float
    finished: float
    results: tuple[EntryResult, ...]
    environment: dict[str, Any] = field(default_factory=dict)
    whole: bool = True  # every entry that this device can judge was run
    skipped: tuple[str, ...] = ()  # entries that need another device
    left: int = 0  # entries that were not begun: stopped before

    @property
    def toolchain(self) -> str:
        return str(self.environment.get("toolchain", ""))

    @property
    def red(self) -> bool:
        """Whether anything was not as it must be; a run without a single entry proves nothing and is red too."""
        counts = any(count.red for count in self.counts())
        return not self.results or counts or any(size.red for size in self.sizes())

    def of(self, corpus: Corpus) -> tuple[EntryResult, ...]:
        return tuple(row for row in self.results if row.corpus is corpus)

    def counts(self) -> tuple[CorpusCount, ...]:
        """Per corpus that was run, in their order."""
        return tuple(_count(corpus, self.of(corpus)) for corpus in Corpus if self.of(corpus))

    def sizes(self) -> tuple[SizeCount, ...]:
        """A/A comparisons by class of calls, in the order of the entries."""
        rows = [row for row in self.of(Corpus.AA) if row.size]
        return tuple(
            SizeCount(
                size,
                sum(row.comparisons for row in rows if row.size == size),
                sum(row.faster for row in rows if row.size == size),
                sum(row.wall_ms for row in rows if row.size == size),
            )
            for size in dict.fromkeys(row.size for row in rows)
        )

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Inverse of `to_json`. Raises TypeError, KeyError or ValueError when malformed."""
        return rebuilt(cls, data)


def _count(corpus: Corpus, rows: tuple[EntryResult, ...]) -> CorpusCount:
    wall_ms = sum(row.wall_ms for row in rows)
    states = Counter(row.state for row in rows)
    ids = {state: tuple(row.id for row in rows if row.state is state) for state in State}
    if corpus is not Corpus.AA:
        return CorpusCount(
            corpus, len(rows), states[State.RIGHT], ids[State.MISSED], ids[State.REASON], ids[State.LOST], wall_ms
        )
    n, faster = sum(row.comparisons for row in rows), sum(row.faster for row in rows)
    false = tuple(row.id for row in rows if row.faster) if faster > FALSE_FASTER_RATE * n else ()
    return CorpusCount(corpus, n, n - faster, ids[State.MISSED] + false, ids[State.REASON], ids[State.LOST], wall_ms)
