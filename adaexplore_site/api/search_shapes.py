"""A search, its nodes and its events as the API answers with them."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from ninja import Field, Schema

from adaexplore_site.api.shapes import MeasureOut, Money, ProblemRef, Tokens


class SearchOut(Schema):
    """One search as the list shows it."""

    id: int
    title: str
    problem: ProblemRef
    device: str
    state: str
    look: str = Field(description="the state, or waiting where only a person's reply is missing")
    stop_reason: str
    origin: str
    proposer: str
    owner: str | None
    seed: int
    steps: int = Field(description="budget")
    told: int = Field(description="steps judged")
    in_flight: int
    correct: int
    failed: int
    best_node: int | None = Field(description="null where nothing faster than PyTorch was found")
    best: MeasureOut | None = Field(description="over eager")
    closest_node: int | None = Field(description="without a best, the audited kernel closest to PyTorch")
    closest: MeasureOut | None = Field(description="over eager")
    cost: Money
    limit_usd: Decimal | None
    started_at: datetime
    ended_at: datetime | None
    archived_at: datetime | None
    last_event_at: datetime | None
    elapsed_s: float | None
    median_step_s: float | None
    eta_s: float | None
    event_seq: int = Field(description="number of its newest event")


class CauseOut(Schema):
    """Failures of one search with one cause."""

    cluster: str | None
    what: str
    stage: str
    verdict: str
    reason: str
    count: int
    first: int
    last: int


class SearchDetail(SearchOut):
    """One search as its page shows it."""

    concurrency: int
    proposals: Tokens
    best_unassisted: int | None = Field(description="best node in which no person had a hand")
    params: dict[str, Any] = Field(description="in force now")
    limits: dict[str, Any]
    spent: dict[str, Any]
    reserved: dict[str, Any]
    causes: list[CauseOut]


class NodeOut(Schema):
    """One node of the tree. `speedup` is null unless the candidate is right and timed."""

    number: int
    parent: int | None
    kind: str
    state: str
    depth: int
    visits: int
    pending: int
    reward: float | None
    best_reward: float | None
    verdict: str | None
    stage: str | None
    reason: str | None
    speedup: MeasureOut | None
    reused: bool
    told_order: int | None
    summary: str
    source_hash: str | None
    by_hand: bool


class Times(Schema):
    """One subject of an evaluation, in microseconds."""

    subject: str
    median_us: float
    low_us: float
    high_us: float
    n: int
    basis: str
    method: str


class NodeDetail(NodeOut):
    """One node with its source and everything behind its verdict."""

    search: int
    source: str
    message: str
    context: list[int]
    device: str | None
    evaluation: int | None
    over_compile: MeasureOut | None
    times: list[Times]
    cases: list[dict[str, Any]]
    judged_in_ms: float | None
    proposals: Tokens
    created_at: datetime
    told_at: datetime | None


class EventOut(Schema):
    """One change of a search. `seq` has no gaps."""

    seq: int
    kind: str
    at: datetime
    actor: str | None
    payload: dict[str, Any]
