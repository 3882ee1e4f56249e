"""The rows that notifications are made of, each as a query: what is told and what is counted are the same."""

from __future__ import annotations

from datetime import datetime

from django.db.models import CharField, Q, QuerySet
from django.db.models.functions import Cast

from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from memory.adapt.models import AdaptRun
from search.batches.models import Campaign
from search.batches.site_budget import ALERT, PAUSE
from search.records.models import Run, RunEvent

QUARANTINE = "device.quarantine"
ITSELF = (QUARANTINE, ALERT, PAUSE, "adapt.pause")  # acts that nobody did


def _own_runs() -> QuerySet[Run]:
    """Searches that somebody started by themselves: those of campaigns and adapt runs speak through these."""
    alone = Q(campaign_entry=None) & ~Q(origin__in=(Run.Origin.ADAPT, Run.Origin.IMPORT))
    return Run.objects.filter(alone)


def ended_rows(since: datetime) -> QuerySet[Run]:
    """Searches that came to their own end; a stop is an act of somebody, which Activity tells."""
    return _own_runs().filter(ended_at__gt=since, state__in=(Run.State.FINISHED, Run.State.FAILED))


def campaign_rows(since: datetime) -> QuerySet[Campaign]:
    return Campaign.objects.filter(ended_at__gt=since, state=Campaign.State.FINISHED)


def adapt_rows(since: datetime) -> QuerySet[AdaptRun]:
    return AdaptRun.objects.filter(ended_at__gt=since, state=AdaptRun.State.FINISHED)


def best_rows(since: datetime) -> QuerySet[RunEvent]:
    """New bests of searches that are open or have ended since: of others none can be new. One that a mark made the
    best was found before, and one that beat nothing is none."""
    runs = _own_runs().filter(~Q(state__in=Run.ENDED) | Q(ended_at__gt=since))
    return RunEvent.objects.filter(run__in=runs, created_at__gt=since).new_bests()


def itself_rows(since: datetime) -> QuerySet[AuditEntry]:
    """What the product did or noticed by itself. A quarantine that holds is told as such."""
    held = quarantined_rows().annotate(key=Cast("pk", CharField())).values("key")
    acts = AuditEntry.objects.filter(object_type__in=("device", "budget", "adapt"), actor=None, verb__in=ITSELF)
    return acts.filter(created_at__gt=since).exclude(verb=QUARANTINE, object_id__in=held)


def quarantined_rows() -> QuerySet[Device]:
    return Device.objects.filter(state=Device.State.QUARANTINED, state_at__isnull=False)
