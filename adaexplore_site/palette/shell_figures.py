"""The figures that stand in the bar of every page: GPUs at work, and what model calls have cost today.

Constant cost: a look at rows in flight, and the sums of this month's days, at most once in five seconds per process.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.core.cache import cache
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from judge.devices.models import Device
from search.ledger.spending import Standing, standing_of
from search.records.models import Node

KEPT_S = 5  # a page may show what held so long ago


@dataclass(frozen=True)
class Figures:
    """`gpus` judge here, `busy` of them right now. `spent` is what was spent beside what may be."""

    gpus: int
    busy: int
    spent: Standing


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
    """As of now: three queries more than none."""
    here = Device.objects.gpus().filter(remote=False).exclude(state=Device.State.QUARANTINED)
    gpus, busy = here.count(), 0
    if gpus:
        judging = Node.objects.filter(state=Node.State.JUDGING, run__device__in=here).on_workers(now)
        busy = judging.order_by().values("run__device").distinct().count()
    return Figures(gpus=gpus, busy=busy, spent=standing_of(now))
