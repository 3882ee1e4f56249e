"""A run summary as the list shows it: progress, counts, silence, spark line."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from django.db.models import Max, Q

from judge.values import Verdict
from search.ledger.books import limits_of
from search.ledger.spending import NOTHING, Amount, spent_by
from search.records.models import Run, RunEvent
from search.records.queries import RunSummary

SPARK_WIDTH, SPARK_HEIGHT, SPARK_PAD = 96, 24, 2
SILENT_AT_LEAST_S = 60.0
STATE_KINDS = ("run.started", "run.paused", "run.resumed", "run.stopping", "run.ended")


@dataclass(frozen=True)
class Spark:
    """Best-so-far over attempts on a log2 axis. `path` and `baseline` (1.0×) are in the 96 × 24 box."""

    path: str
    baseline: float
    x: float  # last point
    y: float


@dataclass(frozen=True)
class RunRow:
    """One line of the list."""

    summary: RunSummary
    ok: int
    failed: int
    spark: Spark | None
    silent_s: float | None  # seconds without an event, when a running search should have had one
    in_state_s: float | None = None
    cost: Amount = NOTHING
    limit_usd: Decimal | None = None
    pick: str = ""  # run.node of its best kernel, else of the closest, for a comparison

    @property
    def run(self) -> Run:
        return self.summary.run


def run_rows(summaries: list[RunSummary], *, now: datetime) -> list[RunRow]:
    """Shape the summaries of a page; two queries more."""
    runs = [summary.run for summary in summaries]
    costs, since = spent_by("run", where=Q(run__in=[run.pk for run in runs])), _since(runs)
    return [
        replace(
            run_row(summary, now=now),
            in_state_s=max((now - since[pk]).total_seconds(), 0.0) if (pk := summary.run.pk) in since else None,
            cost=costs.get(pk, NOTHING),
            limit_usd=limits_of(summary.run).usd,
            pick="" if summary.leader is None else f"{pk}.{summary.leader}",
        )
        for summary in summaries
    ]


def _since(runs: Collection[Run]) -> dict[int, datetime]:
    """Run -> when it came into its state. Imported ones have no clock of ours and are missing."""
    ids = [run.pk for run in runs if run.origin != Run.Origin.IMPORT]
    events = RunEvent.objects.filter(run__in=ids, kind__in=STATE_KINDS).order_by()
    return dict(events.values_list("run").annotate(Max("created_at")))


def run_row(summary: RunSummary, *, now: datetime) -> RunRow:
    """Shape one summary."""
    ok = summary.verdicts.get(Verdict.PASS.value, 0)
    return RunRow(
        summary=summary,
        ok=ok,
        failed=summary.told - ok,
        spark=spark(summary.spark, last=summary.told),
        silent_s=_silence(summary, now),
    )


def _silence(summary: RunSummary, now: datetime) -> float | None:
    """Silent for twice the median step, and at least a minute, while running: something is stuck."""
    if summary.run.state != Run.State.RUNNING or summary.run.proposer == "manual":
        return None
    age = (now - (summary.last_event_at or summary.started)).total_seconds()
    return age if age > max(SILENT_AT_LEAST_S, 2 * (summary.median_step_s or 0)) else None


def spark(points: tuple[tuple[int, float], ...], *, last: int) -> Spark | None:
    """A step line through each new best, extended to the `last` told node. None without points."""
    if not points:
        return None
    logs = [math.log2(value) for _, value in points]
    low, high = min(0.0, *logs), max(0.0, *logs)
    span = (high - low) or 1.0
    end = max(last, points[-1][0], 1)

    def x(order: float) -> float:
        return round(SPARK_PAD + order / end * (SPARK_WIDTH - 2 * SPARK_PAD), 1)

    def y(log: float) -> float:
        return round(SPARK_HEIGHT - SPARK_PAD - (log - low) / span * (SPARK_HEIGHT - 2 * SPARK_PAD), 1)

    path = f"M{x(points[0][0])} {y(logs[0])}"
    for (order, _), log in zip(points[1:], logs[1:], strict=True):
        path += f"H{x(order)}V{y(log)}"
    return Spark(path=f"{path}H{x(end)}", baseline=y(0.0), x=x(end), y=y(logs[-1]))
