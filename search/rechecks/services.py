"""A kernel judged once more because a person asked: verified, disputed, or raced against another one.

Each goes to the worker of its device like a step. The node keeps the verdict that its search went on with.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from adaexplore_site.core.text import clip, storable_text
from judge.bench.processes.stopping import stoppable
from judge.bench.runner import Bench
from judge.devices.models import Device
from judge.evaluations.models import Evaluation, Race
from judge.evaluations.services import evaluation_anew, race_lost
from judge.values import BLAMING, JudgeError, Stopped, Verdict
from search.engine.completion import figure_of, run_locked
from search.engine.devices import device_faulted, device_judged
from search.engine.problems import problem_judged
from search.engine.spending import recheck_add, recheck_stopped_add
from search.rechecks.marking import kernel_failed_anew
from search.rechecks.models import Recheck
from search.records.events import KernelJudged
from search.records.log import event_write
from search.records.queue import FollowUp

QUEUED_S = 60.0  # nobody has taken it up by then: it is sent once more
LEASE_S = 900.0  # an evaluation with its audit and three tries ends well before
MOST_ATTEMPTS = 3
MOST_WAIT_S = 86_400.0  # from the request on


def recheck_hop(row: Recheck, device: Device) -> FollowUp:
    """What sends it to the worker of its device."""
    return FollowUp("recheck_kernel", row.pk, queue=device.queue, expires_s=QUEUED_S)


def recheck_run(
    *,
    recheck_id: int,
    bench_for: Callable[[Device], Bench],
    clock: Callable[[], datetime] = timezone.now,
) -> None:
    """Judge it, on the worker of its device. One that was taken up before, or waits for a device or a problem in
    quarantine, is left alone; one that a person stops ends as that person left it."""
    row = (
        Recheck.objects.select_related("node__run__problem", "before__device", "rival__evaluation")
        .filter(pk=recheck_id)
        .first()
    )
    if row is None or row.before.device.state == Device.State.QUARANTINED or row.node.run.problem.quarantined:
        return
    mine = Recheck.objects.filter(pk=row.pk, state=Recheck.State.QUEUED)
    began = clock()
    if not mine.acquire(now=began, for_s=LEASE_S, state=Recheck.State.RUNNING):
        return
    device = row.before.device
    open_one = Recheck.objects.filter(pk=row.pk, state__in=Recheck.OPEN)
    try:
        with stoppable(lambda: not open_one.exists()):
            bench = bench_for(device)
            found = _judge(row, bench)
    except Stopped:
        _stopped(row, began, clock())
        return
    except JudgeError as error:
        device_faulted(device=device, message=str(error))
        _end(row, Recheck.State.FAILED, clock(), message=str(error))
        return
    for evaluation in found:
        device_judged(evaluation=evaluation, bench=bench)
        problem_judged(evaluation=evaluation)
    _finish(row, found, clock())


def _judge(row: Recheck, bench: Bench) -> list[Evaluation]:
    """The kernel's evaluation; after a lost race also its rival's, asked the other way round, so that whoever wins has
    won in fresh processes."""
    spec: dict[str, Any] = {"problem": row.node.run.problem, "device": row.before.device, "bench": bench}
    fresh = evaluation_anew(source=row.node.source, incumbent=row.rival.source if row.rival else None, **spec)
    if row.rival is None or not race_lost(fresh):
        return [fresh]
    return [fresh, evaluation_anew(source=row.rival.source, incumbent=row.node.source, **spec)]


def _stopped(row: Recheck, began: datetime, now: datetime) -> None:
    """The device was taken all the same."""
    with transaction.atomic():
        if run_locked(row.node.run_id) is not None:
            recheck_stopped_add(node=row.node, device_ms=(now - began).total_seconds() * 1e3, now=now)


def _finish(row: Recheck, found: list[Evaluation], now: datetime) -> None:
    """What was judged counts as far as it is a verdict on a kernel; the device's time counts in any case."""
    fresh, *reverse = found
    with transaction.atomic():
        ended = _end_with(row, fresh, reverse, now)
        if ended:
            _doubt(row, fresh, reverse)  # it locks searches in their order
        run = run_locked(row.node.run_id)
        if run is None:
            return
        recheck_add(node=row.node, evaluations=found, now=now)
        if ended and row.state == Recheck.State.DONE:
            judged = KernelJudged(
                number=row.node.number,
                kind=row.kind,
                verdict=fresh.verdict,
                was=row.before.verdict,
                call=row.race.call if row.race else "",
                **figure_of(fresh),
            )
            event_write(run=run, event=judged)


def _end_with(row: Recheck, fresh: Evaluation, reverse: list[Evaluation], now: datetime) -> bool:
    """End it with what was found, in `row` too. False where it had ended before."""
    if not _is_verdict(fresh):
        row.state = Recheck.State.FAILED
        return _end(row, row.state, now, message=f"No verdict on the kernel: {_why(fresh)}")
    row.state, row.race, message = Recheck.State.DONE, _race_of(row, [fresh, *reverse]), ""
    if row.rival is not None and row.race is None:
        message = f"There was no race. {_no_race(fresh, reverse)}".strip()
    return _end(row, row.state, now, evaluation=fresh, race=row.race, message=message)


def _is_verdict(fresh: Evaluation) -> bool:
    return fresh.verdict == Verdict.PASS.value or fresh.verdict in {verdict.value for verdict in BLAMING}


def _why(fresh: Evaluation) -> str:
    parts = (fresh.verdict.replace("_", " "), fresh.reason)
    return f"{', '.join(filter(None, parts))}. {fresh.message}".strip()


def _no_race(fresh: Evaluation, reverse: list[Evaluation]) -> str:
    for other in reverse:
        if race_lost(other):
            return "Each was slower than the other when it came second: nothing is decided."
        if other.verdict != Verdict.PASS.value:
            return f"The other kernel had to win in fresh processes and ended: {_why(other)}"
    return str((reverse or [fresh])[0].report.get("environment", {}).get("incumbent", ""))


def _doubt(row: Recheck, fresh: Evaluation, reverse: list[Evaluation]) -> None:
    """Who passed before and is to blame now. After a lost race the kernel itself has passed, so it is one at most."""
    judged = [(row.node, row.before, fresh)]
    if row.rival is not None and row.rival.evaluation is not None:
        judged += [(row.rival, row.rival.evaluation, other) for other in reverse]
    for node, before, now in judged:
        if before.verdict == Verdict.PASS.value and now.verdict in {verdict.value for verdict in BLAMING}:
            kernel_failed_anew(node=node, evaluation=before, fresh=now, also=row.node.run_id)


def _race_of(row: Recheck, found: list[Evaluation]) -> Race | None:
    """The race of these two that was measured now."""
    return Race.objects.filter(evaluation__in=found).order_by("-id").first() if row.rival is not None else None


def _end(row: Recheck, state: Recheck.State, now: datetime, **fields: Any) -> bool:
    fields["message"] = clip(storable_text(str(fields.get("message", ""))), 600)
    mine = Recheck.objects.filter(pk=row.pk, state__in=Recheck.OPEN)  # taken for lost, it may be queued once more
    return bool(mine.update(state=state, ended_at=now, **fields))


def rechecks_reap(*, now: datetime) -> list[FollowUp]:
    """What nobody has taken up, or whose worker is lost, is sent again; after three tries or a day it has failed."""
    open_ones = Recheck.objects.filter(state__in=Recheck.OPEN).select_related("before__device")
    return open_ones.reap(now, _again)


def _again(row: Recheck, now: datetime) -> list[FollowUp]:
    mine = Recheck.objects.filter(pk=row.pk, state=row.state, lease_until=row.lease_until)
    if row.attempts >= MOST_ATTEMPTS:
        mine.update(state=Recheck.State.FAILED, ended_at=now, message=f"Its worker was lost {row.attempts} times.")
    elif now - row.created_at > timedelta(seconds=MOST_WAIT_S):
        mine.update(state=Recheck.State.FAILED, ended_at=now, message=_waited(row.before.device))
    elif mine.renew(now=now, for_s=QUEUED_S, state=Recheck.State.QUEUED):
        return [recheck_hop(row, row.before.device)]
    return []


def _waited(device: Device) -> str:
    return f"{device.name} did not start it within a day. Check its worker on the Fleet page, then ask again."
