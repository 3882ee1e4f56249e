"""What the API answers with. Times are ISO 8601, durations seconds, money US dollars; unknown is null, never 0."""

from __future__ import annotations

from decimal import Decimal

from ninja import Field, Schema


class Interval(Schema):
    """Where the value lies: 99.8 % of a measured one, the range of the model of a modelled one."""

    low: float
    high: float


class MeasureOut(Schema):
    """A speedup with its evidence. Never compare two of another basis or device."""

    value: float
    n: int | None = Field(description="samples; null for reported figures")
    interval: Interval | None
    method: str | None = Field(description="how it was timed")
    device: str
    basis: str = Field(description="measured, MODELLED, SIMULATED or reported")
    audit: str = Field(description="passed, failed, none, or elsewhere")


class Money(Schema):
    """Paid calls. `usd` is the sum of those with a price: a lower bound while `unpriced` is not 0."""

    calls: int
    usd: Decimal | None
    unpriced: int


class ProblemRef(Schema):
    slug: str
    title: str
    degenerate: bool


class Tokens(Schema):
    """Calls of the proposer. `tokens` is the sum of those that told: a lower bound while `untold` is not 0."""

    calls: int
    tokens: int | None
    untold: int
    usd: Decimal | None
    unpriced: int
