"""What the preflight of a problem found. Standard library only."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Self

from judge.values.outcomes import StageRecord


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
