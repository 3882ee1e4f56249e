"""Clusters of failures as their pages show them. Every figure is counted from rows, merged clusters together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from django.db.models import CharField, Count, F, Max, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Cast
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from memory.failures.models import Failure, FailureCluster
from memory.patterns.messages import cause_of
from memory.rules.models import Rule, Sighting

BARS, WIDTH, HEIGHT = 24, 96.0, 24.0
LEAST_BAR = 1.5


@dataclass(frozen=True)
class Bar:
    """In the 96 x 24 box."""

    x: float
    y: float
    height: float
    count: int


@dataclass(frozen=True)
class Trend:
    """`bars` of equal spans between the first and the last failure shown; `says` is the same in words."""

    bars: tuple[Bar, ...]
    says: str

    @property
    def width(self) -> float:
        return WIDTH / BARS - 0.8


def trend_of(at: Sequence[float], low: float, high: float) -> Trend | None:
    """Bars of the places `at` on the axis from `low` to `high`. None where all lie at one place."""
    if not at or high <= low:
        return None
    counts = [0] * BARS
    for place in at:
        counts[min(BARS - 1, int((place - low) / (high - low) * BARS))] += 1
    most = max(counts)
    heights = [max(LEAST_BAR, HEIGHT * count / most) for count in counts]
    bars = tuple(
        Bar(round(number * WIDTH / BARS, 2), round(HEIGHT - heights[number], 2), round(heights[number], 2), count)
        for number, count in enumerate(counts)
        if count
    )
    half = BARS // 2
    says = gettext("%(first)d in the first half, %(second)d in the second")
    return Trend(bars, says % {"first": sum(counts[:half]), "second": sum(counts[half:])})


MOST_SHOWN = 100
MOST_DRAWN = 50_000  # failures in the pictures; figures count all
SORTS = {"count": _("failures"), "last": _("latest"), "cost": _("cost")}


@dataclass(frozen=True)
class Chosen:
    """Which failures: of one search, one stage, one problem; muted clusters too; in which order."""

    run: int | None = None
    stage: str = ""
    problem: int | None = None
    muted: bool = False
    sort: str = "count"

    def failures(self) -> QuerySet[Failure]:
        found = Failure.objects.all()
        if self.run is not None:
            found = found.filter(run_id=self.run)
        if self.problem is not None:
            found = found.filter(problem_id=self.problem)
        return found.filter(stage=self.stage) if self.stage else found


@dataclass
class Counted:
    """Sums over one cluster and those merged into it. `unpriced` failures have an unknown cost."""

    cluster: FailureCluster
    count: int = 0
    cost_s: float = 0.0
    priced: int = 0
    last_at: datetime | None = None
    own: list[int] = field(default_factory=list)  # row ids of the clusters counted

    @property
    def unpriced(self) -> int:
        return self.count - self.priced


@dataclass(frozen=True)
class ClusterRow:
    """One line. `share` is of all failures chosen; `first` and `last` come with node and run."""

    counted: Counted
    share: float
    first: Failure
    last: Failure
    trend: Trend | None
    rules: tuple[Rule, ...]  # those that failures of it are sightings of
    escalated: bool

    @property
    def cluster(self) -> FailureCluster:
        return self.counted.cluster

    @property
    def example(self) -> str:
        return cause_of(self.first.message)

    @property
    def muted(self) -> bool:
        return self.cluster.muted_at is not None and not self.escalated


@dataclass(frozen=True)
class ClusterTable:
    """Lines shown; `unnamed` failures of `total` have no known cause; what is left out is counted."""

    rows: tuple[ClusterRow, ...]
    total: int
    unnamed: int
    muted: int  # clusters left out because they are muted
    hidden: int  # clusters left out because the page is full

    @property
    def unnamed_share(self) -> float:
        return self.unnamed / self.total if self.total else 0.0


def cluster_table(chosen: Chosen) -> ClusterTable:
    """The clusters of the failures chosen. A handful of queries, however many failures there are."""
    counted = _counted(chosen.failures())
    total = sum(row.count for row in counted.values())
    escalated, quiet = _muted(counted.values())
    order = {
        "count": lambda row: (-row.count, row.cluster.key),
        "last": lambda row: (-row.last_at.timestamp(), row.cluster.key),
        "cost": lambda row: (-row.cost_s, -row.count, row.cluster.key),
    }[chosen.sort if chosen.sort in SORTS else "count"]
    wanted = sorted((row for row in counted.values() if chosen.muted or row.cluster.pk not in quiet), key=order)
    shown = wanted[:MOST_SHOWN]
    return ClusterTable(
        rows=tuple(_lines(shown, chosen, total, escalated)),
        total=total,
        unnamed=sum(row.count for row in counted.values() if not row.cluster.pattern),
        muted=0 if chosen.muted else len(quiet),
        hidden=len(wanted) - len(shown),
    )


def cluster_row(cluster: FailureCluster) -> ClusterRow | None:
    """One cluster over all searches; None when it holds no failure."""
    family = members(cluster)
    counted = _counted(Failure.objects.filter(cluster_id__in=family))
    if not counted:
        return None
    total = Failure.objects.count()
    escalated, _quiet = _muted(counted.values())
    return next(_lines(list(counted.values()), Chosen(), total, escalated, family), None)


def members(cluster: FailureCluster) -> list[int]:
    """Row ids of a cluster and of those merged into it."""
    return [cluster.pk, *FailureCluster.objects.filter(merged_into=cluster).values_list("pk", flat=True)]


def _counted(failures: QuerySet[Failure]) -> dict[int, Counted]:
    """Sums by row id of the cluster that people see: the one that others were merged into."""
    sums = (
        failures.order_by()
        .values("cluster_id")
        .annotate(count=Count("pk"), cost=Sum("cost_s"), priced=Count("cost_s"), last_at=Max("told_at"))
    )
    rows: list[Any] = list(sums)
    clusters = _clusters(row["cluster_id"] for row in rows)
    found: dict[int, Counted] = {}
    for row in rows:
        own = clusters[row["cluster_id"]]
        shown = own.merged_into or own
        sums_of = found.setdefault(shown.pk, Counted(shown))
        sums_of.count += row["count"]
        sums_of.cost_s += row["cost"] or 0.0
        sums_of.priced += row["priced"]
        sums_of.last_at = max(sums_of.last_at or row["last_at"], row["last_at"])
        sums_of.own.append(own.pk)
    return found


def _clusters(ids: Iterable[int]) -> Mapping[int, FailureCluster]:
    wanted = set(ids)
    rows = FailureCluster.objects.select_related("merged_into", "merged_into__assignee", "assignee")
    if len(wanted) <= 500:
        rows = rows.filter(pk__in=wanted)
    return {row.pk: row for row in rows}


def _muted(counted: Iterable[Counted]) -> tuple[set[int], set[int]]:
    """Muted clusters that have escalated (more than twice the failures of then), and those that are quiet."""
    muted = [row.cluster for row in counted if row.cluster.muted_at is not None]
    if not muted:
        return set(), set()
    family = Q(cluster__in=muted) | Q(cluster__merged_into__in=muted)
    everywhere = _counted(Failure.objects.filter(family))
    loud = {row.pk for row in muted if row.pk in everywhere and everywhere[row.pk].count > 2 * row.muted_count}
    return loud, {row.pk for row in muted} - loud


def _lines(
    shown: Sequence[Counted], chosen: Chosen, total: int, escalated: set[int], family: list[int] | None = None
) -> Iterator[ClusterRow]:
    ends = _ends(chosen, [pk for row in shown for pk in row.own])
    drawn, low, high = _places(chosen, family)
    rules = _rules([row.cluster.pk for row in shown])
    for row in shown:
        yield ClusterRow(
            counted=row,
            share=row.count / total if total else 0.0,
            first=min((ends[pk][0] for pk in row.own), key=_told),
            last=max((ends[pk][1] for pk in row.own), key=_told),
            trend=trend_of(drawn.get(row.cluster.pk, ()), low, high),
            rules=tuple(rules.get(row.cluster.pk, ())),
            escalated=row.cluster.pk in escalated,
        )


def _ends(chosen: Chosen, clusters: Sequence[int]) -> Mapping[int, tuple[Failure, Failure]]:
    """First and last failure of each cluster, in order of completion, with node, run and problem."""
    mine = chosen.failures().filter(cluster=OuterRef("pk"))
    first, last = mine.order_by("told_at", "pk"), mine.order_by("-told_at", "-pk")
    rows = FailureCluster.objects.filter(pk__in=clusters).annotate(
        first_id=Subquery(first.values("pk")[:1]), last_id=Subquery(last.values("pk")[:1])
    )
    ids = {pk: (first, last) for pk, first, last in rows.values_list("pk", "first_id", "last_id")}
    wanted = Failure.objects.filter(pk__in={pk for pair in ids.values() for pk in pair})
    heavy = ("node__source", "node__sketch", "problem__source")
    found = {row.pk: row for row in wanted.select_related("node", "run", "problem").defer(*heavy)}
    return {pk: (found[first], found[last]) for pk, (first, last) in ids.items()}


def _told(failure: Failure) -> tuple[datetime, int]:
    return failure.told_at, failure.pk


def _places(chosen: Chosen, family: list[int] | None) -> tuple[Mapping[int, Sequence[float]], float, float]:
    """Where on the axis the failures of each cluster lie: attempts of one search, else the time of day and year."""
    failures = chosen.failures().order_by("-pk")
    if family is not None:
        failures = failures.filter(cluster_id__in=family)
    # As text: ten thousand times take a tenth of a second to become aware datetimes.
    place = Cast("told_at", CharField()) if chosen.run is None else F("node__told_order")
    rows = failures.annotate(place=place).values_list("cluster_id", "cluster__merged_into_id", "place")[:MOST_DRAWN]
    places: defaultdict[int, list[float]] = defaultdict(list)
    for own, merged, at in rows:
        places[merged or own].append(_seconds(at) if isinstance(at, str) else float(at or 0))
    every = [at for found in places.values() for at in found]
    return places, min(every, default=0.0), max(every, default=0.0)


def _seconds(at: str) -> float:
    found = datetime.fromisoformat(at)
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()


def _rules(clusters: Sequence[int]) -> Mapping[int, list[Rule]]:
    found: defaultdict[int, dict[int, Rule]] = defaultdict(dict)
    own = dict(FailureCluster.objects.filter(merged_into__in=clusters).values_list("pk", "merged_into_id"))
    sightings = Sighting.objects.filter(failure__cluster__in=[*clusters, *own]).order_by("rule_id")
    linked = list(sightings.values_list("failure__cluster_id", "rule_id").distinct())
    rules = Rule.objects.select_related("current").in_bulk({rule for _, rule in linked})
    for cluster, rule in linked:
        found[own.get(cluster, cluster)][rule] = rules[rule]
    return {cluster: list(those.values()) for cluster, those in found.items()}
