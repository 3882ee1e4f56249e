"""What the compile stage found of one candidate. Standard library only."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from judge.bench.exchange.claims import MOST_GROUPS, MOST_KERNELS, MOST_NOTES
from judge.bench.exchange.fields import BadClaim, Fields, text_of
from judge.bench.exchange.rows import MESSAGE_CHARS, KernelRow, LauncherRow, TunedRow
from judge.values import Finding, Verdict

NEVER = frozenset({Verdict.PASS, Verdict.LOST, Verdict.CANCELLED})
VERDICTS = frozenset(verdict.value for verdict in Verdict)


def capped(tuned: Iterable[TunedRow]) -> list[Finding]:
    """What became of lists too long or too slow to compile as a whole."""
    found = []
    for row in tuned:
        dropped = row.over_limit + row.late
        if dropped:
            data = {name: getattr(row, name) for name in ("kernel", "total", "over_limit", "late", "unfit")}
            text = (
                f"{row.kernel}: {dropped} of {row.total} configurations were not compiled "
                f"(at most 64, and 20 s); {len(row.compiled)} compete"
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
    kernels: tuple[KernelRow, ...] = ()  # one for each launch, in order
    tuned: tuple[TunedRow, ...] = ()  # one for each autotuner's list
    launchers: tuple[LauncherRow, ...] = ()  # signatures of host stubs, see stub_build
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.verdict is not Verdict.COMPILED_ONLY and not self.reason:
            raise ValueError("a failed compilation needs a reason code")
        if self.verdict in NEVER:
            raise ValueError(f"compiling alone does not end in {self.verdict}")
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

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "kernels": [row.to_json() for row in self.kernels]}

    @classmethod
    def read(cls, value: Any) -> Self:
        """From a process that runs the problem's code, or from a file. Raises BadClaim."""
        row = Fields(value, "a compile report")
        try:
            return cls(
                Verdict(row.word("verdict", VERDICTS)),
                stage=row.text("stage", 20),
                reason=row.text("reason", 60),
                message=row.text("message", MESSAGE_CHARS),
                final=row.flag("final"),
                loads=row.flag("loads"),
                kernels=row.rows("kernels", KernelRow.read, MOST_KERNELS),
                tuned=row.rows("tuned", TunedRow.read, MOST_GROUPS),
                launchers=row.rows("launchers", LauncherRow.read, MOST_KERNELS),
                notes=row.rows("notes", lambda one: text_of(one, "a note"), MOST_NOTES),
            )
        except ValueError as error:
            raise BadClaim(str(error)) from error
