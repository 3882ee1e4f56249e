"""What came of one recorded kernel here, beside what was published: a line of JSON. Standard library only."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from judge.values import PROTOCOL, Outcome, Verdict
from tests.benchmarks.recorded.entries import RIGHT, Entry, Published

MESSAGE_CHARS = 1500
Key = tuple[str, str, str, str, str]


class Relation(StrEnum):
    """How a verdict of ours stands to what was published."""

    AGREES = "agrees"  # the same, as far as this device can tell
    DIFFERS = "differs"
    UNDECIDED = "undecided"  # this device does not tell
    LOST = "lost"  # the judge failed


_NO_ANSWER = frozenset({Verdict.UNSUPPORTED, Verdict.REFUSED_PROBLEM, Verdict.CANCELLED})
_RAN = frozenset(
    {
        Verdict.WRONG, Verdict.WRONG_STRUCTURE, Verdict.NOT_FINITE, Verdict.UNSTABLE, Verdict.STATE_VIOLATION,
        Verdict.LOWER_PRECISION, Verdict.DISHONEST, Verdict.SUSPECT,
    }
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One verdict. Speedups are over eager: `published_speedup` on the recording's hardware, never compared with ours.

    `round`: family, error and allowed error of the correctness round that failed. `figures`: value, low, high, n,
    basis of our own speedup.
    """

    id: str
    problem: str
    candidate: str  # canonical hash
    problem_hash: str
    device: str
    toolchain: str
    published: Published
    published_speedup: float | None
    published_error: str
    verdict: Verdict
    stage: str
    reason: str = ""
    message: str = ""
    loads: bool = False
    launches: int = 0
    round: dict[str, Any] | None = None
    figures: dict[str, Any] | None = None
    audit: str = ""
    findings: tuple[tuple[str, str], ...] = ()  # code, message
    wall_s: float = 0.0
    protocol: str = PROTOCOL

    @property
    def key(self) -> Key:
        """What a verdict is known by."""
        return (self.problem_hash, self.candidate, self.device, self.toolchain, self.protocol)

    @property
    def relation(self) -> Relation:
        return relation(self.published, self.verdict)

    @property
    def words(self) -> str:
        """Verdict and reason."""
        return f"{self.verdict} {self.reason}".strip()

    def to_line(self) -> bytes:
        return json.dumps(dataclasses.asdict(self)).encode()

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Inverse of `to_line`. Raises ValueError, KeyError or TypeError when malformed."""
        row = json.loads(line)
        words = {"published": Published(row["published"]), "verdict": Verdict(row["verdict"])}
        findings = tuple((str(code), str(message)) for code, message in row["findings"])
        return cls(**{**row, **words, "findings": findings})


def key_of(entry: Entry, device: str, toolchain: str) -> Key:
    return (entry.spec.hash, entry.hash, device, toolchain, PROTOCOL)


def row_of(entry: Entry, outcome: Outcome, *, device: str, toolchain: str, wall_s: float) -> Row:
    """What is kept of an outcome: enough to explain it, no samples and no source."""
    failed = next((case for case in outcome.cases if not case.ok), None)
    speedup = outcome.speedup
    return Row(
        id=entry.id,
        problem=entry.problem,
        candidate=entry.hash,
        problem_hash=entry.spec.hash,
        device=device,
        toolchain=toolchain,
        published=entry.published,
        published_speedup=entry.speedup,
        published_error=_last_line(entry.error),
        verdict=outcome.verdict,
        stage=outcome.stage,
        reason=outcome.reason,
        message=outcome.message[:MESSAGE_CHARS],
        loads=outcome.loads,
        launches=len(outcome.kernels),
        round={name: getattr(failed, name) for name in ("family", "error", "allowed", "detail")} if failed else None,
        figures={name: getattr(speedup, name) for name in ("value", "low", "high", "n", "basis")} if speedup else None,
        audit=str(outcome.audit),
        findings=tuple((finding.code, finding.message[:300]) for finding in outcome.findings),
        wall_s=round(wall_s, 3),
    )


def read_rows(path: Path) -> Iterator[Row]:
    """Every row of a file, the newest of equal keys last. Raises ValueError that names a line which is none."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                yield Row.from_line(line)
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{path}, line {number}: not a row of judge_recorded ({error})") from error


def relation(published: Published, verdict: Verdict) -> Relation:
    """Whether the verdict says of the kernel what the recording says."""
    if verdict is Verdict.LOST:
        return Relation.LOST
    if verdict in _NO_ANSWER:
        return Relation.UNDECIDED
    if verdict is Verdict.COMPILED_ONLY:
        if published in (Published.COMPILE_ERROR, Published.NOT_LOADED, Published.BAD_SOURCE):
            return Relation.DIFFERS
        return Relation.AGREES if published in RIGHT or published is Published.WRONG else Relation.UNDECIDED
    if published in RIGHT:
        same = verdict is Verdict.PASS
    elif published is Published.WRONG:
        same = verdict in _RAN
    else:
        same = verdict is not Verdict.PASS and verdict not in _RAN
    return Relation.AGREES if same else Relation.DIFFERS


def _last_line(error: str) -> str:
    """The line of a published error that names the exception; carets and source lines of a trace say nothing."""
    lines = [line.strip() for line in error.splitlines() if line.strip(" ^")]
    named = [line for line in lines if "Error" in line or "OutOfResources" in line]
    return (named or lines or [""])[-1][:300]
