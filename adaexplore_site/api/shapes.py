"""What the API answers with, as JSON or CSV, a page at a time. Times are ISO 8601, durations seconds, money US dollars;
unknown is null, never 0."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

from django.http import HttpRequest, HttpResponse
from ninja import Field, Schema
from ninja.params.functions import Query
from pydantic import BeforeValidator

from adaexplore_site.core.downloads import safe
from judge.devices.models import Device
from judge.evaluations.measures import Measure, beside_columns
from judge.evaluations.models import Evaluation, Measurement
from judge.values import Basis, Subject


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
    over_shipped: float | None = Field(description="speedup over eager as PyTorch ships; null where it was not timed")
    shipped_low: float | None
    shipped_high: float | None
    shipped_n: int | None
    over_fastest: float | None = Field(description="speedup over the fastest baseline that was timed")
    fastest_low: float | None
    fastest_high: float | None
    fastest_n: int | None
    fastest: str | None = Field(description="which one that is")


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


T = TypeVar("T", bound=Schema)
Whole = Annotated[int, Field(ge=0, le=2**63 - 1)]  # what a column can hold
Given = Annotated[str | None, BeforeValidator(lambda text: text or None)]  # an empty text is null
Form = Literal["json", "csv"]
FORM = Query(None, description="csv for a file; else what Accept asks for")


def shaped(shape: type[T], *sources: object, **own: Any) -> T:
    """A shape with the fields `own`; each of the others is read from the first of `sources` that has its name."""
    rest = [name for name in shape.model_fields if name not in own]
    found = {name: next((one for one in sources if hasattr(one, name)), None) for name in rest}
    return shape(**own, **{name: getattr(one, name) for name, one in found.items() if one is not None})


class Listed(Schema, Generic[T]):
    """One page of a list. Give `next` back as `after` for the page behind it; null at the end."""

    items: list[T]
    next: int | None = None


def listed(request: HttpRequest, rows: Sequence[T], following: int | None, form: str | None) -> Any:
    """A page in the form asked for. A CSV names the next page in the header `X-Next`."""
    if (form or _accepted(request)) == "json":
        return {"items": list(rows), "next": following}
    headers = {"X-Next": str(following)} if following is not None else {}
    text = _csv([flat(row.model_dump(mode="json")) for row in rows])
    return HttpResponse(text, content_type="text/csv; charset=utf-8", headers=headers)


def _accepted(request: HttpRequest) -> str:
    return "csv" if (request.get_preferred_type(["application/json", "text/csv"]) == "text/csv") else "json"


def flat(value: Mapping[str, Any], begin: str = "") -> dict[str, Any]:
    """Objects as columns (`best.value`), lists as JSON."""
    found: dict[str, Any] = {}
    for name, one in value.items():
        if isinstance(one, Mapping):
            found |= flat(one, f"{begin}{name}.")
        else:
            found[begin + name] = json.dumps(one) if isinstance(one, list) else one
    return found


def _csv(rows: list[dict[str, Any]]) -> str:
    """Null is an empty cell. A column that is null in one row and an object in another has the object's columns."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    names = [name for name in names if not any(other.startswith(f"{name}.") for other in names)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([["" if row.get(name) is None else safe(row[name]) for name in names] for row in rows])
    return out.getvalue()


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
    verdict: Given
    stage: Given
    reason: Given
    speedup: MeasureOut | None
    reused: bool
    told_order: int | None
    summary: str
    source_hash: Given
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


class WeightedCaseOut(Schema):
    """One declared case of a problem in which any has a weight."""

    case: str = Field(description="empty for the constants as written")
    weight: float = Field(description="0: checked, and no part of the mean")
    evaluated: bool = Field(description="the case that is timed in any event, and beside other baselines")
    state: str = Field(description="faster, slower, same, unclear, timed, checked, failed, left_out or not_reached")
    eager_us: float | None
    kernel_us: float | None
    speedup: float | None = Field(description="over eager")
    n: int | None
    interval: Interval | None
    detail: str


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
    weighted_cases: list[WeightedCaseOut] = Field(description="the evaluated one first; empty without weights")
    judged_in_ms: float | None
    proposals: Tokens
    waits_for: Literal["reply", "outcome"] | None = Field(
        description="reply: somebody answers `prompt` with the action node.reply; outcome: another machine judges it"
    )
    prompt: str | None = Field(description="the whole prompt of a node that waits for a reply, else null")
    created_at: datetime
    told_at: datetime | None


class EventOut(Schema):
    """One change of a search. `seq` has no gaps."""

    seq: int
    kind: str
    at: datetime
    actor: str | None
    payload: dict[str, Any]


class KernelOut(Schema):
    """The fastest kernel of a problem on a device, or on one GPU of a device class. `decided`: no other kernel's
    interval reaches it."""

    problem: ProblemRef
    device: str
    gpu: str | None = Field(description="UUID of the GPU of a device class")
    precision: str
    dtype: Given
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
    """A version of a problem. `eager_us` by device, as its preflight found it. `superseded`: there is a newer one."""

    slug: str
    title: str
    family: str
    level: str
    origin: str
    state: str
    numerics: str = Field(description="strict, shipped (as PyTorch ships), tf32 or half")
    gradients: str = Field(description="of what gradients are asked: none, inputs, parameters or all")
    version: int
    superseded: bool
    archived_at: datetime | None
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
    pattern: Given
    version: int
    text: str
    family: Given
    arch: Given
    triton: Given
    revision: int
    support: int = Field(description="distinct problems among its sightings")
    sightings: int
    cost_s: float | None = Field(description="of the priced sightings")
    unpriced: int
    lift: LiftOut
    prompts: int = Field(description="prompts where it was eligible")
    shown: int
    recheck: Given
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
    arch: Given
    basis: str | None
    state: str
    state_reason: Given
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


class Measures:
    """The speedups of these evaluations. Two queries, however many."""

    def __init__(self, evaluations: Iterable[Evaluation | None]) -> None:
        self.rows = {row.pk: row for row in evaluations if row is not None}
        subjects = Measurement.objects.filter(evaluation__in=self.rows, subject=Subject.CANDIDATE.value)
        self.methods = dict(subjects.values_list("evaluation", "method")) if self.rows else {}
        devices = {row.device_id for row in self.rows.values()}
        self.devices = dict(Device.objects.filter(pk__in=devices).values_list("pk", "name")) if devices else {}

    def of(self, evaluation: Evaluation | None) -> MeasureOut | None:
        """None without a speedup."""
        return None if evaluation is None else self.as_json(Measure.of(evaluation), evaluation)

    def by_id(self, pk: int | None) -> MeasureOut | None:
        """The same by the evaluation's number."""
        return self.of(self.rows.get(pk)) if pk is not None else None

    def as_json(self, measure: Measure | None, evaluation: Evaluation) -> MeasureOut | None:
        """A number that belongs to an evaluation."""
        if measure is None:
            return None
        low, high = measure.low, measure.high
        bounded = low is not None and high is not None and measure.basis is not Basis.REPORTED
        return MeasureOut(
            value=measure.value,
            n=measure.n,
            interval=Interval(low=low, high=high) if bounded else None,  # type: ignore[arg-type]  # both are there
            method=self.methods.get(evaluation.pk),
            device=self.devices[evaluation.device_id],
            basis=basis_word(measure.basis.value),
            audit="elsewhere" if evaluation.elsewhere else evaluation.audit or "none",
            **beside_columns(measure),
        )


def basis_word(basis: str) -> str:
    """As the pages say it: what no clock has timed stands in capitals."""
    return basis.upper() if basis in ("modelled", "simulated") else basis
