"""What the preflight of a problem found. Standard library only."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Self

from judge.values.outcomes import StageRecord
from judge.values.rebuilding import rebuilt, strict

# Codes that flag a problem as degenerate, the one that says most first.
DEGENERATE = (
    "problem.constant",
    "problem.near_zero",
    "problem.ill_conditioned",  # the allowed error is as wide as the answer: null candidates pass for that alone
    "problem.input_insensitive",
    "problem.identity",
    "problem.param_insensitive",
    "problem.dead_ops",
    "problem.collapses",
)


@dataclass(frozen=True)
class Flaw:
    """Something about a problem that a person should know, and what to change.

    With `flags` the problem is degenerate: a kernel can be fast without doing the work.
    """

    code: str
    message: str
    fix: str
    flags: bool = True

    def __post_init__(self) -> None:
        if self.flags and self.code not in DEGENERATE:
            raise ValueError(f"{self.code} flags no problem as degenerate")


@dataclass(frozen=True)
class Roofline:
    """The least time one forward can take on a GPU: what must move at its bandwidth, what must be computed at its peak.

    Bandwidth in GB/s, peak in TFLOP/s of the kind of arithmetic (`kind`) that most of the FLOPs may use under the
    policy; times in microseconds. `source` is "published" or "measured" (the bandwidth; a peak is always published).
    """

    target: str  # "sm_90"
    title: str  # the GPU whose published figures these are
    dram_gb_s: float
    peak_tflops: float
    kind: str
    memory_us: float
    compute_us: float
    source: str = "published"

    def __post_init__(self) -> None:
        figures = (self.dram_gb_s, self.peak_tflops, self.memory_us, self.compute_us)
        if any(not math.isfinite(figure) or figure < 0 for figure in figures) or not self.dram_gb_s * self.peak_tflops:
            raise ValueError("figures of a roofline are finite, bandwidth and peak positive")
        if self.source not in {"published", "measured"}:
            raise ValueError(f"a roofline is published or measured, not {self.source!r}")

    @property
    def bound_us(self) -> float:
        """No forward is faster than this."""
        return max(self.memory_us, self.compute_us)

    @property
    def bound(self) -> str:
        """Which of the two it is: "memory" or "compute"."""
        return "memory" if self.memory_us >= self.compute_us else "compute"

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "bound_us": self.bound_us, "bound": self.bound}


@dataclass(frozen=True)
class EagerTime:
    """Time of the reference in eager mode, microseconds: median and 99.8 % interval, or the range of the model."""

    median_us: float
    low_us: float
    high_us: float
    n: int  # samples; 0 when modelled
    modelled: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.low_us <= self.median_us <= self.high_us < math.inf:
            raise ValueError("the interval of a time is positive and holds the median")


@dataclass(frozen=True)
class AdmissionReport:
    """What the preflight found. `state` is admitted, degenerate or refused; `graph` is an OpGraph as JSON or None.

    `flaws` may be there in every state; the first that flags gives a degenerate problem its reason and message.
    """

    state: str
    reason: str = ""  # problem.* code when degenerate or refused
    message: str = ""
    case: str | None = None  # the case used on this device
    cases: tuple[str, ...] = ()  # every declared case name
    declared: tuple[
        dict[str, Any], ...
    ] = ()  # of each case: name, inputs, left_out (why no candidate is asked it here), weight where any has one
    stages: tuple[StageRecord, ...] = ()
    flaws: tuple[Flaw, ...] = ()
    inputs: tuple[dict[str, Any], ...] = ()  # shape, dtype
    outputs: tuple[dict[str, Any], ...] = ()
    parameters: int = 0
    flops: float | None = None
    compulsory_bytes: float | None = None  # each input, parameter and output once
    roofline: Roofline | None = None
    eager: EagerTime | None = None
    graph: dict[str, Any] | None = None
    environment: dict[str, Any] = field(default_factory=dict)
    wall_ms: float = 0.0

    def __post_init__(self) -> None:
        if self.state not in {"admitted", "degenerate", "refused"}:
            raise ValueError(f"unknown admission state {self.state!r}")
        if self.state != "admitted" and not self.reason:
            raise ValueError("degenerate and refused need a reason code")
        if self.state == "admitted" and any(flaw.flags for flaw in self.flaws):
            raise ValueError("a problem with such a flaw is degenerate")

    @property
    def eager_us(self) -> float | None:
        """Median time of the reference in eager mode, measured (cuda) or modelled (interpreter)."""
        return self.eager.median_us if self.eager else None

    def to_json(self) -> dict[str, Any]:
        plain = dataclasses.asdict(self)
        return {**plain, "roofline": self.roofline.to_json() if self.roofline else None, "eager_us": self.eager_us}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Inverse of `to_json`. Raises ValueError, KeyError or TypeError when malformed, and for numbers that cannot be
        stored."""
        return rebuilt(cls, strict(data))
