"""Verdicts and outcomes of evaluations: what the bench answers. Standard library only."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from judge.values.baselines import ALTERNATIVES, Subject
from judge.values.rebuilding import finite, json_object, rebuilt, strict
from judge.values.weights import NAME_CHARS

PROTOCOL = "judge/7"


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


# What a kernel itself is to blame for. The others speak of the problem, of the device, or of the judge.
BLAMING = frozenset(
    {
        Verdict.BAD_SOURCE,
        Verdict.LOAD_FAILED,
        Verdict.COMPILE_FAILED,
        Verdict.CRASHED,
        Verdict.TIMED_OUT,
        Verdict.WRONG_STRUCTURE,
        Verdict.WRONG,
        Verdict.NOT_FINITE,
        Verdict.UNSTABLE,
        Verdict.STATE_VIOLATION,
        Verdict.LOWER_PRECISION,
        Verdict.DISHONEST,
        Verdict.SUSPECT,
    }
)
UNCACHED = frozenset({Verdict.LOST, Verdict.CANCELLED})


class Basis(StrEnum):
    """Where a number comes from. Numbers of different bases are never compared or summed."""

    MEASURED = "measured"  # a GPU, our protocol
    MODELLED = "modelled"  # counted traffic and FLOPs through a time model; shown as MODELLED
    REPORTED = "reported"  # imported: somebody else's figure, no samples


class SpeedCall(StrEnum):
    """What a measured ratio says at 1 % indifference."""

    NONE = ""  # not a side-by-side measurement
    FASTER = "faster"  # the whole interval is beyond 1 %
    SLOWER = "slower"
    SAME = "same"  # the whole interval is within 1 %
    AMBIGUOUS = "ambiguous"  # the pairs did not decide it
    UNSTABLE = "unstable"  # pairs of processes contradict each other: no win, and no loss


class JudgeError(Exception):
    """A fault of the judge itself (a child could not start, the runner broke). Never blames the candidate."""


UNCLEAR = "judge.unclear"  # reason of what is lost by an UnclearFault: the device works


class UnclearFault(JudgeError):
    """A process that runs the problem's code came to no verdict by its own word, although a known problem was judged
    right after it: not the device's fault, and perhaps nobody's."""


class Stopped(Exception):
    """The work is not wanted any more, for example because a person stopped it. Its children have been ended."""


@dataclass(frozen=True)
class Timing:
    """Times of one subject: raw samples (us), their median and a 99.8 % interval of the median."""

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

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Self:
        """Rebuild and re-check. Raises ValueError, KeyError or TypeError when malformed."""
        return rebuilt(cls, row)


@dataclass(frozen=True)
class Speedup:
    """Baseline time over candidate time. The interval is 99.8 % when measured, the stated range when MODELLED.

    It is one of medians within a pair of processes; over pairs of processes where launching is what takes the time, or
    where they differ by more than that.
    """

    value: float
    low: float
    high: float
    n: int
    basis: Basis
    over: Subject = Subject.EAGER
    call: SpeedCall = SpeedCall.NONE

    def __post_init__(self) -> None:
        if not (0 < self.low <= self.value <= self.high and math.isfinite(self.high)):
            raise ValueError("speedup interval must be positive, finite and hold the value")


class CaseState(StrEnum):
    """What became of a declared case in one evaluation."""

    TIMED = "timed"
    CHECKED = "checked"  # right, and not timed
    FAILED = "failed"
    LEFT_OUT = "left_out"
    NOT_REACHED = "not_reached"  # the evaluation ended before


@dataclass(frozen=True)
class WeightedCase:
    """A declared case of a problem in which any has a weight.

    `timings` (candidate, eager, the best so far) are given where the case is not the evaluated one, whose timings are
    the outcome's. `detail`: why it is not timed, or left out.
    """

    case: str  # "": the constants as written
    weight: float  # 0: checked, and without a part in the mean
    state: CaseState
    evaluated: bool = False  # the case that is timed first, and of a slower kernel alone
    detail: str = ""
    timings: tuple[Timing, ...] = ()
    speedup: Speedup | None = None
    versus_incumbent: Speedup | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.weight < math.inf:
            raise ValueError("a weight is finite and not negative")
        if self.state is not CaseState.TIMED and (self.timings or self.speedup or self.versus_incumbent):
            raise ValueError("only a case that was timed has times")
        if self.timings and not (len(self.case) <= NAME_CHARS and self.case.isprintable()):
            raise ValueError(f"the name of a case that was timed has at most {NAME_CHARS} characters, all printable")
        subjects = [timing.subject for timing in self.timings]
        if len(set(subjects)) != len(subjects) or (self.evaluated and subjects):
            raise ValueError("each subject has one time in a case, and those of the evaluated case are the outcome's")

    @property
    def counts(self) -> bool:
        """Whether it is a part of the weighted mean."""
        return self.weight > 0 and self.state is CaseState.TIMED and self.speedup is not None


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


class Audit(StrEnum):
    """Whether a pass may become a best."""

    NONE = ""  # not looked at: slower than the best, or judged before there were audits
    PASSED = "passed"
    FAILED = "failed"  # the verdict says what was found


@dataclass(frozen=True)
class Finding:
    """Something the judge noticed that is no verdict: shown with the evaluation, e.g. `library.share`."""

    code: str
    message: str
    data: dict[str, Any] = field(default_factory=dict)  # plain numbers and names behind the message


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
    over_others: dict[str, Speedup] = field(default_factory=dict)  # by name of the alternative; one field each in JSON
    versus_incumbent: Speedup | None = None  # against the best so far, side by side
    weighted: tuple[WeightedCase, ...] = ()  # every declared case, where any has a weight
    stages: tuple[StageRecord, ...] = ()
    cases: tuple[CaseRecord, ...] = ()
    findings: tuple[Finding, ...] = ()
    audit: Audit = Audit.NONE
    kernels: tuple[dict[str, Any], ...] = ()  # per launch: name, grid, warps, stages, regs, spills, shared_bytes
    environment: dict[str, Any] = field(default_factory=dict)  # device, toolchain, sandbox layers -> active/...
    log: str = ""
    wall_ms: float = 0.0

    def __post_init__(self) -> None:
        if self.verdict is not Verdict.PASS and (
            self.timings or self.speedup or self.over_others or self.versus_incumbent
        ):
            raise ValueError("only a pass may carry times")
        if self.verdict is not Verdict.PASS and any(row.state is CaseState.TIMED for row in self.weighted):
            raise ValueError("only a pass has timed cases")
        if len({row.case for row in self.weighted}) != len(self.weighted):
            raise ValueError("each case has one row")
        if self.verdict is Verdict.PASS and not self.loads:
            raise ValueError("a pass has loaded")
        if self.audit is Audit.PASSED and self.verdict is not Verdict.PASS:
            raise ValueError("only a pass can have passed an audit")
        if self.verdict is not Verdict.PASS and not self.reason:
            raise ValueError("a verdict other than pass needs a reason code")

    @property
    def mean_of(self) -> tuple[WeightedCase, ...]:
        """The cases of which `speedup` is the weighted geometric mean; () where it is the evaluated case's alone."""
        rows = [row for row in self.weighted if row.weight > 0 and row.state is not CaseState.LEFT_OUT]
        return tuple(rows) if self.speedup is not None and all(row.counts for row in rows) else ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types without NaN and infinities; `from_json` is its inverse. What only weighted cases need is
        left out without any."""
        plain: dict[str, Any] = {}
        for name, value in dataclasses.asdict(self).items():
            if name == "weighted" and not value:
                continue
            plain |= {one.key: value.get(one.name) for one in ALTERNATIVES} if name == "over_others" else {name: value}
        return dict(finite(plain))

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Rebuild and re-check a value from a pipe. Raises ValueError, KeyError or TypeError when malformed, and for
        numbers that cannot be stored, wherever they are."""
        names = {one.key: one.name for one in ALTERNATIVES}
        others = {names[key]: row for key, row in json_object(strict(data)).items() if key in names and row}
        fields = {key: value for key, value in data.items() if key not in names}
        return rebuilt(cls, {**fields, "over_others": others})
