"""What crosses process borders in the judge: frozen values that check themselves. Standard library only."""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

PROTOCOL = "judge/1"


class Verdict(StrEnum):
    """Every way an evaluation can end."""

    PASS = "pass"
    REFUSED_PROBLEM = "refused_problem"
    BAD_SOURCE = "bad_source"
    LOAD_FAILED = "load_failed"
    COMPILE_FAILED = "compile_failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    WRONG_STRUCTURE = "wrong_structure"
    WRONG = "wrong"
    NOT_FINITE = "not_finite"
    UNSTABLE = "unstable"
    STATE_VIOLATION = "state_violation"
    LOWER_PRECISION = "lower_precision"
    DISHONEST = "dishonest"
    SUSPECT = "suspect"
    UNSUPPORTED = "unsupported"
    COMPILED_ONLY = "compiled_only"
    CANCELLED = "cancelled"
    LOST = "lost"


UNCACHED = frozenset({Verdict.LOST, Verdict.CANCELLED})


class Basis(StrEnum):
    """Where a number comes from. Numbers of different bases are never compared or summed."""

    MEASURED = "measured"  # a GPU, our protocol
    MODELLED = "modelled"  # counted traffic and FLOPs through a time model; shown as MODELLED
    REPORTED = "reported"  # imported: somebody else's figure, no samples


class Subject(StrEnum):
    CANDIDATE = "candidate"
    EAGER = "eager"
    COMPILE = "compile"


class JudgeError(Exception):
    """A fault of the judge itself (a child could not start, the runner broke). Never blames the candidate."""


@dataclass(frozen=True)
class Limits:
    """Bounds of one child process."""

    wall_s: float = 60.0  # whole evaluation
    stage_s: float = 30.0  # any single stage (import, one forward, ...)
    memory_mb: int = 4096  # address space beyond the preloaded parent; CPU devices only
    output_bytes: int = 64 * 1024  # kept candidate stdout+stderr
    source_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        if min(self.wall_s, self.stage_s) <= 0 or self.memory_mb < 256:
            raise ValueError("limits must be positive, memory at least 256 MiB")


@dataclass(frozen=True)
class ProblemSpec:
    """A problem as the bench sees it. `case` is the name from get_cases() to time; None means the plain constants."""

    source: str
    case: str | None = None

    @property
    def hash(self) -> str:
        return text_hash(self.source)


@dataclass(frozen=True)
class Job:
    """One evaluation to do. `seed` feeds only the order of rounds; inputs use the referee's own entropy."""

    id: str
    problem: ProblemSpec
    candidate: str
    limits: Limits = Limits()
    timing: bool = True


@dataclass(frozen=True)
class Timing:
    """Times of one subject: raw samples (us), their median and a 95 % interval of the median."""

    subject: Subject
    basis: Basis
    method: str  # "cuda_events", "traffic_model"
    samples_us: tuple[float, ...]
    median_us: float
    low_us: float
    high_us: float
    detail: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        values = (self.median_us, self.low_us, self.high_us, *self.samples_us)
        if not self.samples_us or any(not math.isfinite(v) or v <= 0 for v in values):
            raise ValueError(f"{self.subject}: times must be finite and positive")
        if not self.low_us <= self.median_us <= self.high_us:
            raise ValueError(f"{self.subject}: the interval must hold the median")

    @property
    def n(self) -> int:
        return len(self.samples_us)


@dataclass(frozen=True)
class Speedup:
    """Baseline time / candidate time, with a 95 % interval. For MODELLED it spans the model's stated range."""

    value: float
    low: float
    high: float
    n: int
    basis: Basis
    over: Subject = Subject.EAGER

    def __post_init__(self) -> None:
        if not (0 < self.low <= self.value <= self.high and math.isfinite(self.high)):
            raise ValueError("speedup interval must be positive, finite and hold the value")


@dataclass(frozen=True)
class StageRecord:
    """One stage of an evaluation or of a preflight: `state` is ok, failed, warned or skipped."""

    name: str
    state: str
    wall_ms: float
    detail: str = ""
    fix: str = ""  # what the person should change; empty when ok

    def __post_init__(self) -> None:
        if not all(isinstance(text, str) for text in (self.name, self.detail, self.fix)):
            raise ValueError("name, detail and fix of a stage are text")
        if not math.isfinite(self.wall_ms):
            raise ValueError("the time of a stage is a finite number")
        if self.state not in {"ok", "failed", "warned", "skipped"}:
            raise ValueError(f"unknown stage state {self.state!r}")


@dataclass(frozen=True)
class CaseRecord:
    """One correctness round: which case and input family, the error and what was allowed."""

    case: str
    family: str
    ok: bool
    error: float | None = None
    allowed: float | None = None
    detail: str = ""


@dataclass(frozen=True)
class Outcome:
    """The value an evaluation ends in. `speedup` and `timings` only with `pass`."""

    verdict: Verdict
    stage: str
    reason: str = ""
    message: str = ""
    loads: bool = False
    timings: tuple[Timing, ...] = ()
    speedup: Speedup | None = None
    speedup_compile: Speedup | None = None
    stages: tuple[StageRecord, ...] = ()
    cases: tuple[CaseRecord, ...] = ()
    kernels: tuple[dict[str, Any], ...] = ()  # per launch: name, grid, warps, stages, regs, spills, shared_bytes
    environment: dict[str, Any] = field(default_factory=dict)  # device, toolchain, sandbox layers -> active/...
    log: str = ""
    wall_ms: float = 0.0

    def __post_init__(self) -> None:
        if self.verdict is not Verdict.PASS and (self.timings or self.speedup or self.speedup_compile):
            raise ValueError("only a pass may carry times")
        if self.verdict is Verdict.PASS and not self.loads:
            raise ValueError("a pass has loaded")
        if self.verdict is not Verdict.PASS and not self.reason:
            raise ValueError("a verdict other than pass needs a reason code")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types; `from_json` is its inverse."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Rebuild and re-check a value from a pipe. Raises ValueError, KeyError or TypeError when malformed."""

        def timing(row: dict[str, Any]) -> Timing:
            row = {**row, "subject": Subject(row["subject"]), "basis": Basis(row["basis"])}
            return Timing(**{**row, "samples_us": tuple(row["samples_us"])})

        def speedup(row: dict[str, Any] | None) -> Speedup | None:
            return Speedup(**{**row, "basis": Basis(row["basis"]), "over": Subject(row["over"])}) if row else None

        return cls(
            **{
                **data,
                "verdict": Verdict(data["verdict"]),
                "timings": tuple(timing(row) for row in data.get("timings", ())),
                "speedup": speedup(data.get("speedup")),
                "speedup_compile": speedup(data.get("speedup_compile")),
                "stages": tuple(StageRecord(**row) for row in data.get("stages", ())),
                "cases": tuple(CaseRecord(**row) for row in data.get("cases", ())),
                "kernels": tuple(data.get("kernels", ())),
            }
        )


@dataclass(frozen=True)
class AdmissionReport:
    """What the preflight found. `state` is admitted, degenerate or refused; `graph` is an OpGraph as JSON or None."""

    state: str
    reason: str = ""  # problem.* code when degenerate or refused
    message: str = ""
    case: str | None = None  # the case used on this device
    cases: tuple[str, ...] = ()  # every declared case name
    stages: tuple[StageRecord, ...] = ()
    inputs: tuple[dict[str, Any], ...] = ()  # shape, dtype
    outputs: tuple[dict[str, Any], ...] = ()
    parameters: int = 0
    flops: float | None = None
    compulsory_bytes: float | None = None  # each input, parameter and output once
    eager_us: float | None = None  # measured (cuda) or modelled (interpreter)
    graph: dict[str, Any] | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    wall_ms: float = 0.0

    def __post_init__(self) -> None:
        if self.state not in {"admitted", "degenerate", "refused"}:
            raise ValueError(f"unknown admission state {self.state!r}")
        if self.state != "admitted" and not self.reason:
            raise ValueError("degenerate and refused need a reason code")

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return cls(
            **{
                **data,
                "cases": tuple(data.get("cases", ())),
                "stages": tuple(StageRecord(**row) for row in data.get("stages", ())),
                "inputs": tuple(data.get("inputs", ())),
                "outputs": tuple(data.get("outputs", ())),
            }
        )


def text_hash(source: str) -> str:
    """sha256 of the text with uniform line ends."""
    return hashlib.sha256(source.replace("\r\n", "\n").encode()).hexdigest()


def canonical_hash(source: str) -> str:
    """sha256 that ignores comments, docstrings and layout; names are kept. Text that does not parse hashes as text."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text_hash(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and body:
            first = body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()
