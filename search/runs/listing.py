"""The list of searches: what it is narrowed to, its order and pages, and each search as a row."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from django.db.models import Max, Q, QuerySet
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from judge.devices.models import Device
from judge.values import Verdict
from search.engine.waiting import Carrying, carrying
from search.ledger.books import limits_of
from search.ledger.spending import NOTHING, Amount, spent_by
from search.proposers import BY_HAND
from search.records.models import Run, RunEvent
from search.records.queries import RunSummary

ADAPT, ARCHIVED = "adapt", "archived"  # tabs of their own: what stands there is in no other
TABS = {
    "": (_("All"), ()),
    "running": (_("Running"), ("running", "stopping")),
    "paused": (_("Paused"), ("paused",)),
    "ended": (_("Ended"), tuple(state.value for state in Run.ENDED)),
    ADAPT: (_("Of adapt runs"), ()),
    ARCHIVED: (_("Archived"), ()),
}
STATE_KINDS = ("run.started", "run.paused", "run.resumed", "run.stopping", "run.ended")
SORTS = {"": _("newest first"), "oldest": _("oldest first"), "problem": _("by problem")}
SPARK_WIDTH, SPARK_HEIGHT, SPARK_PAD = 96, 24, 2
SILENT_AT_LEAST_S = 60.0


@dataclass(frozen=True)
class RunFilter:
    """Unknown values narrow nothing. `before` is the last search of the page before."""

    state: str = ""
    q: str = ""
    device: str = ""
    sort: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> RunFilter:
        """Out of a query string."""
        state, sort = given.get("state", ""), given.get("sort", "")
        return cls(
            state=state if state in TABS else "",
            q=given.get("q", "").strip()[:80],
            device=given.get("device", "")[:60],
            sort=sort if sort in SORTS else "",
        )

    @property
    def narrows(self) -> bool:
        return bool(self.q or self.device or self.state)

    def url(self, **changes: object) -> str:
        """The list with some of its choices changed."""
        now = {"state": self.state, "q": self.q, "device": self.device, "sort": self.sort, **changes}
        kept = {name: value for name, value in now.items() if value}
        return reverse("run-list", query=kept) if kept else reverse("run-list")

    def runs(self, before: int | None = None) -> QuerySet[Run]:
        """The searches of the filter in its order, after the search `before`."""
        runs = Run.objects.select_related("problem", "device", "owner")
        runs = runs.filter(archived_at__isnull=self.state != ARCHIVED)
        if self.state != ARCHIVED:
            runs = (
                runs.filter(origin=Run.Origin.ADAPT) if self.state == ADAPT else runs.exclude(origin=Run.Origin.ADAPT)
            )
        if states := TABS[self.state][1]:
            runs = runs.filter(state__in=states)
        if self.device:
            runs = runs.filter(device__name=self.device)
        if self.q:
            text = self.q
            runs = runs.filter(
                Q(title__icontains=text) | Q(problem__title__icontains=text) | Q(problem__slug__icontains=text)
            )
        return self._after(runs, before)

    def _after(self, runs: QuerySet[Run], before: int | None) -> QuerySet[Run]:
        if self.sort == "oldest":
            runs = runs.order_by("pk")
            return runs if before is None else runs.filter(pk__gt=before)
        if self.sort == "problem":
            runs = runs.order_by("problem__title", "-pk")
            last = Run.objects.select_related("problem").filter(pk=before).first() if before is not None else None
            if last is None:
                return runs
            title = last.problem.title
            return runs.filter(Q(problem__title__gt=title) | Q(problem__title=title, pk__lt=last.pk))
        runs = runs.order_by("-pk")
        return runs if before is None else runs.filter(pk__lt=before)


def devices_searched() -> list[str]:
    """Names of the devices that any search has used."""
    return list(Device.objects.filter(runs__isnull=False).distinct().order_by("name").values_list("name", flat=True))


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
    carrying: Carrying | None = None  # what waits for the machine of its device
    pick: str = ""  # run.node of its best kernel, else of the closest, for a comparison

    @property
    def run(self) -> Run:
        return self.summary.run


def run_rows(summaries: list[RunSummary], *, now: datetime) -> list[RunRow]:
    """Shape the summaries of a page; two queries more, and one where searches run on devices of other machines."""
    runs = [summary.run for summary in summaries]
    costs, since = spent_by("run", where=Q(run__in=[run.pk for run in runs])), _since(runs)
    carried = carrying(runs)
    return [
        replace(
            run_row(summary, now=now),
            in_state_s=max((now - since[pk]).total_seconds(), 0.0) if (pk := summary.run.pk) in since else None,
            cost=costs.get(pk, NOTHING),
            limit_usd=limits_of(summary.run).usd,
            carrying=carried.get(summary.run.pk),
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
    if summary.run.state != Run.State.RUNNING or summary.run.proposer in BY_HAND:
        return None
    age = (now - (summary.last_event_at or summary.started)).total_seconds()
    return age if age > max(SILENT_AT_LEAST_S, 2 * (summary.median_step_s or 0)) else None


def spark(points: tuple[tuple[int, float], ...], *, last: int) -> Spark | None:
    """A step line through each new best, extended to the `last` completed node. None without points."""
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
    for point, log in zip(points[1:], logs[1:], strict=True):
        path += f"H{x(point[0])}V{y(log)}"
    return Spark(path=f"{path}H{x(end)}", baseline=y(0.0), x=x(end), y=y(logs[-1]))
