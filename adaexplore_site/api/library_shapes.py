"""Kernels, problems, rules and clusters as the API answers with them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ninja import Field, Schema

from adaexplore_site.api.shapes import Interval, MeasureOut, ProblemRef


class KernelOut(Schema):
    """The fastest kernel of a problem on a device. `decided`: no other kernel's interval reaches it."""

    problem: ProblemRef
    device: str
    precision: str
    dtype: str | None
    decided: bool
    tied_count: int
    search: int
    node: int
    speedup: MeasureOut
    by_hand: bool
    candidate_hash: str
    sealed_check: str | None
    toolchain: str
    judged_at: datetime


class ProblemOut(Schema):
    """One problem. `eager_us` by device, as its preflight found it."""

    slug: str
    title: str
    family: str
    level: str
    origin: str
    state: str
    searches: int
    bests: list[MeasureOut] = Field(description="the fastest of each basis that has one")
    eager_us: dict[str, float]
    created_at: datetime


class ProblemDetail(ProblemOut):
    description: str
    source: str
    source_hash: str
    policy: dict[str, Any]
    flags: list[str]


class LiftOut(Schema):
    """What a rule changes: valid share with it minus without. Null until enough prompts had and had it not."""

    estimate: float | None
    interval: Interval | None
    sure_interval: Interval | None = Field(description="holds for all rules and looks; only this says helps or harms")
    shown: int
    withheld: int


class RuleOut(Schema):
    """One rule. `revision` is what an act on it must send."""

    id: int
    state: str
    origin: str
    pattern: str | None
    version: int
    text: str
    family: str | None
    arch: str | None
    triton: str | None
    revision: int
    support: int = Field(description="distinct problems among its sightings")
    sightings: int
    cost_s: float | None = Field(description="of the priced sightings")
    unpriced: int
    lift: LiftOut
    prompts: int = Field(description="prompts where it was eligible")
    shown: int
    recheck: str | None
    decided_by: str | None
    decided_at: datetime | None
    created_at: datetime


class ClusterOut(Schema):
    """Failures of one cause over all searches. `cost_s` is of the `priced` ones."""

    key: str
    title: str
    stage: str
    count: int
    share: float
    cost_s: float | None
    unpriced: int
    muted: bool
    assignee: str | None
    example: str
    last_at: datetime | None
    rules: list[int]
