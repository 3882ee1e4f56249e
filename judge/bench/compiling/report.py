"""What the compile stage found of one candidate. Standard library only."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from judge.values import Finding, Verdict
from judge.values.rebuilding import rebuilt

Row = dict[str, Any]


def capped(tuned: Iterable[Row]) -> list[Finding]:
    """What became of lists too long or too slow to compile as a whole."""
    found = []
    for row in tuned:
        dropped = int(row["over_limit"]) + int(row["late"])
        if dropped:
            data = {name: row[name] for name in ("kernel", "total", "over_limit", "late", "unfit")}
            text = (
                f"{row['kernel']}: {dropped} of {row['total']} configurations were not compiled "
                f"(at most 64, and 20 s); {len(row['compiled'])} compete"
            )
            found.append(Finding("compile.capped", text, data))
    return found


@dataclass(frozen=True)
class CompileReport:
    """`verdict` is compiled_only when every launch compiled, else what stood in the way.

    `final`: the candidate is at fault on any machine. Otherwise a GPU decides: the stage runs on a processor and knows
    no values, so that a candidate may well fail here only.
    """

    verdict: Verdict
    stage: str = "compile"
    reason: str = ""
    message: str = ""
    final: bool = False
    loads: bool = False
    kernels: tuple[Row, ...] = ()  # one for each launch, in order
    tuned: tuple[Row, ...] = ()  # one for each autotuner's list, see tuning_record.group_row
    launchers: tuple[Row, ...] = ()  # signatures of host stubs, see toolchain_build
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.verdict is not Verdict.COMPILED_ONLY and not self.reason:
            raise ValueError("a failed compilation needs a reason code")
        if self.verdict is Verdict.COMPILED_ONLY and self.final:
            raise ValueError("what compiled ends no evaluation")

    @property
    def complete(self) -> bool:
        return self.verdict is Verdict.COMPILED_ONLY

    def findings(self) -> tuple[Finding, ...]:
        """What a person should know beside the verdict."""
        found = capped(self.tuned)
        if not self.complete and not self.final:
            found.append(Finding("compile.incomplete", self.message))
        return tuple(found)

    def to_json(self) -> Row:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Row) -> Self:
        """Rebuild and re-check. Raises ValueError, KeyError or TypeError when malformed."""
        return rebuilt(cls, data)
