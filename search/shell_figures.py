"""The figures that stand in the bar of every page: GPUs at work, and what model calls have cost today.

Constant cost: a look at rows in flight, and the calls of one day, summed at most once in five seconds per process.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.core.cache import cache
from django.db.models import Count, Sum
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from judge.models import Device
from search.models import Node, Proposal
from search.run_costs import Cost
from search.services.leases import QUEUED, RETRY
from search.spending import FREE_MODELS, UNPRICED

KEPT_S = 5  # a page may show what held so long ago
WAITING = ("", QUEUED, RETRY, Node.PERSON)


@dataclass(frozen=True)
class Figures:
    """`gpus` judge here, `busy` of them right now. `cost` is that of today's calls."""

    gpus: int
    busy: int
    cost: Cost

    @property
    def spend(self) -> str:
        """What today has cost, in words."""
        return self.cost.words or "no paid calls"


def context(request: HttpRequest) -> dict[str, object]:
    """Template context: `figures`, asked of the database only where a template prints them."""
    return {"figures": SimpleLazyObject(lambda: figures_of(timezone.now()))}


def figures_of(now: datetime) -> Figures:
    """As of now, or of a few seconds ago."""
    known: Figures | None = cache.get("shell-figures")
    if known is None:
        known = figures_read(now)
        cache.set("shell-figures", known, KEPT_S)
    return known


def figures_read(now: datetime) -> Figures:
    """As of now. Where nothing judges on a GPU and nobody has ever called a model, two queries."""
    here = Device.objects.filter(kind=Device.Kind.CUDA, remote=False).exclude(state=Device.State.QUARANTINED)
    gpus, busy = here.count(), 0
    if gpus:
        judging = Node.objects.filter(state=Node.State.JUDGING, run__device__in=here).exclude(lease_owner__in=WAITING)
        busy = judging.order_by().values("run__device").distinct().count()
    midnight = timezone.localtime(now).replace(hour=0, minute=0, second=0, microsecond=0)
    return Figures(gpus=gpus, busy=busy, cost=_cost(midnight))


def _cost(midnight: datetime) -> Cost:
    first = first_call(midnight)
    if not first:
        return Cost()
    calls = Proposal.objects.filter(pk__gte=first, created_at__gte=midnight)
    paid = calls.exclude(model__in=FREE_MODELS).order_by()
    spent = paid.aggregate(calls=Count("pk"), unpriced=Count("pk", filter=UNPRICED), usd=Sum("price_usd"))
    return Cost(spent["calls"], spent["unpriced"], spent["usd"] or Decimal(0))


def first_call(since: datetime) -> int:
    """A number that no call since then lies below, found in about twenty steps and kept for the day; 0 without calls.

    Calls are numbered in the order in which they are written, so their times need no index of their own.
    """
    key = f"first-call-{since.isoformat()}"
    known: int | None = cache.get(key)
    if known is not None:
        return known
    calls = Proposal.objects.order_by("pk").values_list("pk", "created_at")
    last = calls.last()
    if last is None:
        return 0
    low, high = 1, last[0] + 1
    while low < high:  # every call below `low` is older, the one at `high` or after it is not
        middle = (low + high) // 2
        row = calls.filter(pk__gte=middle).first()
        if row is None or row[1] >= since:
            high = middle
        else:
            low = row[0] + 1
    cache.set(key, low, 86_400)
    return low
