"""What compute-sanitizer said about one candidate. It decides no verdict. Standard library only."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

MOST_NAMES = 20  # of kinds and kernels that are kept


class CheckState(StrEnum):
    """How one tool's run ended."""

    CLEAN = "clean"  # the call was made, and nothing was reported
    ERRORS = "errors"
    FAILED = "failed"  # it says nothing about the kernel; `detail` says why
    TIMEOUT = "timeout"
    MEMORY = "memory"


@dataclass(frozen=True)
class Findings:
    """A report as it was read. `errors` is None where it has no summary; counts by kind and by kernel are of what was
    printed, which may be less; `fault` is the tool's own failure."""

    errors: int | None = None
    kinds: dict[str, int] = field(default_factory=dict)
    kernels: dict[str, int] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    fault: str = ""


@dataclass(frozen=True)
class ToolRun:
    """One tool's run on the candidate's one call."""

    tool: str
    state: CheckState
    seconds: float
    detail: str = ""
    findings: Findings = field(default_factory=Findings)

    def __post_init__(self) -> None:
        if (self.state is CheckState.ERRORS) != bool(self.findings.errors or self.findings.kinds):
            raise ValueError("errors are said where there are some, and nowhere else")


@dataclass(frozen=True)
class SanitizerReport:
    """All runs, the sandbox layers of the process that made the call, and which tool it was."""

    path: str
    layers: dict[str, str]
    runs: tuple[ToolRun, ...]

    @property
    def state(self) -> CheckState:
        """The worst of all runs: errors, then whatever kept a tool from an answer."""
        order = (CheckState.ERRORS, CheckState.FAILED, CheckState.TIMEOUT, CheckState.MEMORY)
        states = {run.state for run in self.runs}
        return next((state for state in order if state in states), CheckState.CLEAN)

    def to_json(self) -> dict[str, Any]:
        """As it is stored and shown."""
        return {**dataclasses.asdict(self), "state": self.state.value}
