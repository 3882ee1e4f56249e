"""The kernels both judges judge: four for each of eight samples, written by the built-in proposer and kept as text.

Kept, not made anew, so that figures of different days are about the same work. Nothing here imports them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
CANDIDATES, SAMPLES = HERE / "candidates", HERE.parents[2] / "judge" / "samples"


@dataclass(frozen=True)
class Entry:
    """One candidate for one problem."""

    problem: str  # the sample's name
    number: int
    source: str = field(repr=False)  # of the problem
    candidate: str = field(repr=False)

    @property
    def id(self) -> str:
        return f"{self.problem}_{self.number}"


def entries() -> tuple[Entry, ...]:
    """All, the first candidate of every problem before any second: a run cut short has still seen every problem."""
    found = [_read(path) for path in CANDIDATES.glob("*.py")]
    return tuple(sorted(found, key=lambda entry: (entry.number, entry.problem)))


def _read(path: Path) -> Entry:
    problem, _, number = path.stem.rpartition("_")
    source = (SAMPLES / f"{problem}.py").read_text(encoding="utf-8")
    return Entry(problem, int(number), source, path.read_text(encoding="utf-8"))
