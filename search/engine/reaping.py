"""Puts back to work whatever lost its worker or its message. Safe to run at any time and in several places."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Count, F, Q
from django.utils import timezone

from memory.failures.models import Failure
from search.engine.faults import lease_expired
from search.records.follow_ups import Hop
from search.records.models import Node, Run

# A run driven by a command is taken over only after this silence: between two of its hops nothing is in flight.
COMMAND_SILENCE_S = 60.0
LEARN_SILENCE_S = 60.0
BATCH = 500


def reap(*, now: datetime | None = None) -> list[Hop]:
    """Hops for expired leases, and for running runs with budget and free places but nobody to ask."""
    now = now or timezone.now()
    hops = Node.objects.filter(state__in=Node.IN_FLIGHT).only("run").reap(now, lease_expired)
    known = {hop.target for hop in hops if hop.task == "advance"}
    hops += [Hop("advance", run_id) for run_id in _idle_runs(now) if run_id not in known]
    return hops + [Hop("learn", failure_id) for failure_id in _unlearned(now)]


def _unlearned(now: datetime) -> list[int]:
    """Failures of searches that learn whose message to the learner was lost."""
    waiting = Failure.objects.filter(lesson=Failure.Lesson.NONE, run__memory__learns=True)
    old = waiting.filter(told_at__lt=now - timedelta(seconds=LEARN_SILENCE_S))
    return list(old.order_by("pk").values_list("pk", flat=True)[:BATCH])


def _idle_runs(now: datetime) -> list[int]:
    """Running runs with a free place, nothing in flight, or past their deadline. Draining ones end alone."""
    in_flight = Count("nodes", filter=Q(nodes__state__in=Node.IN_FLIGHT))
    live = Count("nodes", filter=~Q(nodes__state=Node.State.CANCELLED) & ~Q(nodes__kind=Node.Kind.ROOT))
    runs = Run.objects.filter(state=Run.State.RUNNING).annotate(in_flight=in_flight, live=live)
    free = Q(in_flight__lt=F("concurrency"), live__lt=F("steps"))
    idle = runs.filter(Q(in_flight=0) | free | Q(deadline_at__lte=now))
    silent = now - timedelta(seconds=COMMAND_SILENCE_S)
    idle = idle.exclude(origin=Run.Origin.COMMAND, events__created_at__gt=silent)
    idle = idle.exclude(adapt_task__adapt__driven_until__gt=now).exclude(adapt_control__adapt__driven_until__gt=now)
    return list(idle.order_by("pk").values_list("pk", flat=True))
