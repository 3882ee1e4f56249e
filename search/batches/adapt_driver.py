"""Carries a whole adapt run on in this process, without queue or workers, as `drive` does with one search."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet
from django.utils import timezone

from judge.bench.runner import Bench
from judge.devices.models import Device
from memory.adapt.models import AdaptRun, AdaptTask
from memory.failures.models import Failure
from search.batches.adapt_advance import adapt_advance
from search.batches.adapt_tasks import task_admit, task_compose
from search.batches.adapt_writer import Writer
from search.engine.driver import drive
from search.proposers.protocol import Proposer
from search.records.models import Run
from search.records.queue import FollowUp

HELD_S = 60.0  # for so long beat leaves the adapt run to this process after a sign of life
LOOK_AGAIN_S = 2.0


@dataclass(frozen=True)
class Hands:
    """What the work is done with."""

    write: Writer
    proposer_for: Callable[[str], Proposer]
    bench_for: Callable[[Device], Bench]
    sleep: Callable[[float], None]
    told: Callable[[AdaptTask], None]  # after a task was refused or preflighted
    report: Callable[[Run], None]  # after every follow-up task of a search


def drive_adapt(*, adapt: AdaptRun, hands: Hands) -> AdaptRun:
    """Work until the adapt run has ended or is paused, its device is away, or what is left waits for a person.

    Searches run one after the other here, whatever is allowed at once. A task starts when every failure before it has
    taught: so the same seed gives the same searches.
    """
    asked: deque[FollowUp] = deque()
    tried: set[int] = set()
    begun = timezone.now()
    AdaptTask.objects.filter(adapt=adapt, state=AdaptTask.State.WAITING).update(asked_at=None)
    try:
        while True:
            _hold(adapt)
            _learn_what_is_left(adapt, hands, tried)
            asked.extend(_own(adapt_advance(adapt_id=adapt.pk, settled=True)))
            adapt.refresh_from_db()
            if adapt.state != AdaptRun.State.RUNNING or adapt.device.state != Device.State.ACTIVE:
                return adapt
            run = _searches(adapt).filter(state__in=(Run.State.RUNNING, Run.State.STOPPING)).order_by("pk").first()
            if run is not None:
                _drive_run(adapt, run, hands)
            elif asked:
                asked.extend(_own(_do(asked.popleft(), hands, begun)))
            elif _waits(adapt):
                return adapt
            else:
                hands.sleep(LOOK_AGAIN_S)  # another process does it
    finally:
        AdaptRun.objects.filter(pk=adapt.pk).update(driven_until=None)


def _searches(adapt: AdaptRun) -> QuerySet[Run]:
    mine = Run.objects.filter(Q(adapt_task__adapt=adapt) | Q(adapt_control__adapt=adapt))
    return mine.select_related("device", "problem")


def _waits(adapt: AdaptRun) -> bool:
    """Whether paused searches are all that is left, or hold every place."""
    paused = _searches(adapt).filter(state=Run.State.PAUSED)
    places = AdaptTask.objects.filter(Q(run__in=paused) | Q(control__in=paused)).count()
    return places >= adapt.at_once or not adapt.entries.filter(state=AdaptTask.State.WAITING).exists()


def _hold(adapt: AdaptRun) -> None:
    AdaptRun.objects.filter(pk=adapt.pk).update(driven_until=timezone.now() + timedelta(seconds=HELD_S))


def _own(follow_ups: list[FollowUp]) -> list[FollowUp]:
    """Without the searches' own: those are found in the rows."""
    return [follow_up for follow_up in follow_ups if follow_up.task in ("compose_task", "admit_task")]


def _do(follow_up: FollowUp, hands: Hands, begun: datetime) -> list[FollowUp]:
    if follow_up.task == "compose_task":
        follow_ups = task_compose(task_id=follow_up.target, write=hands.write, settled=True)
    else:
        follow_ups = task_admit(task_id=follow_up.target, bench_for=hands.bench_for, settled=True, since=begun)
    task = AdaptTask.objects.select_related("problem", "run").filter(pk=follow_up.target).first()
    if task is not None and (follow_up.task == "admit_task" or task.state == AdaptTask.State.REFUSED):
        hands.told(task)
    return follow_ups


def _drive_run(adapt: AdaptRun, run: Run, hands: Hands, first: tuple[FollowUp, ...] = ()) -> None:
    def report() -> None:
        _hold(adapt)
        hands.report(run)

    drive(
        run=run,
        proposer_for=hands.proposer_for,
        bench_for=hands.bench_for,
        sleep=hands.sleep,
        report=report,
        first=first,
    )


def _learn_what_is_left(adapt: AdaptRun, hands: Hands, tried: set[int]) -> None:
    """Failures of ended searches that nobody has learned from: their message died with a process. Each is tried once
    here: who distils may be away."""
    left = Failure.objects.filter(lesson="", run__adapt_task__adapt=adapt, run__memory__learns=True)
    ended = left.filter(run__state__in=Run.ENDED).exclude(pk__in=tried).select_related("run__device")
    for failure in ended.order_by("told_at", "pk"):
        tried.add(failure.pk)
        _drive_run(adapt, failure.run, hands, (FollowUp("learn", failure.pk),))
