"""Devices, spending and acts as the API answers with them."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from ninja import Field, Schema

from adaexplore_site.api.shapes import MeasureOut


class JobOut(Schema):
    search: int
    node: int
    since: datetime


class DeviceOut(Schema):
    """One device of the fleet. `alive` is null where no worker of ours serves it."""

    id: int
    name: str
    title: str
    kind: str
    arch: str | None
    basis: str | None
    state: str
    state_reason: str | None
    alive: bool | None
    seen_s: float | None
    waiting: int
    oldest_waiting_at: datetime | None
    jobs: list[JobOut]
    verdicts: int
    passed: int
    noise_floor: float | None = Field(description="a share: 0.006 is 0.6 %")
    gpu_use_percent: int | None
    gpu_memory_used_mib: int | None
    gpu_temperature_c: int | None


class AmountOut(Schema):
    """Sums of what is known, counts of what is not."""

    calls: int
    usd: Decimal | None
    unpriced: int
    tokens_in: int | None
    tokens_out: int | None
    untold: int
    gpu_s: float
    interpreter_s: float
    reused: int
    saved_s: float


class SpendLine(AmountOut):
    """One group."""

    group: str
    search: int | None
    best: MeasureOut | None
    usd_per_tenth: str | None


class ActOut(Schema):
    """One act of the audit in words."""

    id: int
    at: datetime
    who: str
    source: str
    verb: str
    what: str
    change: str
    object: str
    undo: str | None = Field(description="what an undo would be called; null where none is possible")


class Me(Schema):
    """Who asks, and what this token or session may do."""

    user: str
    roles: list[str]
    token: str | None
