"""Leases: who works on a node and until when, what faults that blame no candidate lead to, and the reaper."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Count, F, Q
from django.utils import timezone

from adaexplore_site.core.leases import BATCH, beat
from adaexplore_site.core.text import clip
from judge.devices.models import Device
from judge.values import JudgeError
from judge.values.owners import here, owner_lives
from memory.failures.models import Failure
from search.engine.completion import node_cancel, node_complete, nodes_cancel, run_end, run_follow, run_locked
from search.engine.spending import proposals_record
from search.proposers.protocol import Call, ProposerError
from search.records.events import LeaseExpired, ProposerRetry, RunPaused
from search.records.facts import LOST_ATTEMPTS
from search.records.log import event_write
from search.records.models import Node, Run
from search.records.queue import IO_QUEUE, FollowUp

LEASE_S = 30.0  # a dead worker's node is free again after this
RENEW_S = 8.0
QUEUE_S = 30.0  # a node that no worker has taken by then is sent again
RESENT_S = 60.0
MAX_ATTEMPTS = 5

QUEUED, RETRY, PERSON = Node.QUEUED, Node.RETRY, Node.PERSON


def leases_release(*, now: datetime, queue_lost: bool) -> int:
    """End the leases of dead processes that ran here; with `queue_lost` those of queued nodes too.

    The supervisor calls it at its start and when it replaces a worker, so that the next reap need not wait for the
    expiry. Returns how many leases ended.
    """
    held = Node.objects.filter(state__in=Node.IN_FLIGHT).held(now)
    owners = held.filter(lease_owner__startswith=here() + ":").values_list("lease_owner", flat=True)
    dead = [owner for owner in owners if not owner_lives(owner)]
    return held.filter(lease_owner__in=(*dead, QUEUED, RETRY) if queue_lost else dead).release(now=now)


def node_claim(*, node_id: int, state: Node.State, owner: str, now: datetime) -> bool:
    """Take the lease of a node that waits in `state`. False when another worker has it, or no attempt is left."""
    free = Q(lease_owner__in=(QUEUED, RETRY)) | Q(lease_until__lte=now)
    nodes = Node.objects.filter(free, pk=node_id, state=state, attempts__lt=MAX_ATTEMPTS)
    return nodes.acquire(now=now, for_s=LEASE_S, lease_owner=owner)


def lease_renew(*, node_id: int, owner: str, now: datetime) -> bool:
    """Push the expiry of a lease that is still held."""
    return Node.objects.filter(pk=node_id, lease_owner=owner, state__in=Node.IN_FLIGHT).renew(now=now, for_s=LEASE_S)


def lease_held(*, node_id: int, owner: str) -> bool:
    """Whether the node is still this owner's: not withdrawn, not queued again, not taken over."""
    return Node.objects.filter(pk=node_id, lease_owner=owner, state__in=Node.IN_FLIGHT).exists()


@contextmanager
def lease_kept(*, node_id: int, owner: str, every_s: float = RENEW_S) -> Iterator[None]:
    """Renew the lease from a daemon thread while the body works; a killed process stops renewing by itself."""

    def renew() -> bool:
        return lease_renew(node_id=node_id, owner=owner, now=timezone.now())

    done, thread = beat(renew, every_s=every_s, first_s=every_s, name=f"lease-{node_id}")
    try:
        yield
    finally:
        done.set()
        thread.join()


MAX_RETRIES = 8
LONGEST_WAIT_S = 60.0


def proposer_fault(*, node: Node, owner: str, error: ProposerError, now: datetime) -> list[FollowUp]:
    """A permanent fault fails the run; a passing one is tried again, later each time; the eighth pauses the run.

    Pausing withdraws the node, so that its place in the budget is free when the run goes on.
    """
    with transaction.atomic():
        run = run_locked(node.run_id)
        held = Node.objects.filter(pk=node.pk, state=Node.State.PROPOSING, lease_owner=owner)
        if run is None or not held.exists():
            return []
        proposals_record(node=node, proposer=run.proposer, calls=error.calls or (Call(error=str(error)),))
        if error.permanent:
            nodes_cancel(run=run, why="The proposer failed.")
            run_end(run=run, state=Run.State.FAILED, reason=str(error), now=now)
            return []
        attempt = node.proposals.exclude(error="").count()
        if attempt >= MAX_RETRIES and run.state == Run.State.RUNNING:
            return _pause(run, node, str(error))
        wait_s = min(2.0**attempt, LONGEST_WAIT_S)
        _put_back(node, owner, now, wait_s, count=False)
        message = clip(str(error), 300)
        retry = ProposerRetry(number=node.number, attempt=attempt, wait_s=wait_s, message=message)
        event_write(run=run, event=retry)
        return [FollowUp("propose", node.pk, delay_s=wait_s)]


def judge_fault(*, node: Node, owner: str, error: JudgeError, now: datetime) -> list[FollowUp]:
    """Try again later; after the last attempt the node is completed as lost."""
    with transaction.atomic():
        run = run_locked(node.run_id)
        held = Node.objects.filter(pk=node.pk, state=Node.State.JUDGING, lease_owner=owner).first()
        if run is None or held is None:
            return []
        if held.attempts >= MAX_ATTEMPTS:
            return _give_up(run, held, str(error), now)
        wait_s = 2.0**held.attempts
        _put_back(held, owner, now, wait_s)
        message = clip(f"The judge failed: {error}", 300)
        event_write(run=run, event=LeaseExpired(number=node.number, attempts=held.attempts, message=message))
        return [FollowUp("judge_node", node.pk, queue=run.device.queue, delay_s=wait_s)]


def lease_expired(found: Node, now: datetime) -> list[FollowUp]:
    """Send a node again whose worker is gone or whose message was lost; give it up after the last attempt."""
    with transaction.atomic():
        run = run_locked(found.run_id)
        node = Node.objects.filter(pk=found.pk, state__in=Node.IN_FLIGHT).expired(now).first()
        if run is None or node is None:
            return []
        if run.state == Run.State.STOPPING or run.ended:
            node_cancel(run=run, node=node, why="The search was stopped.")
            return run_follow(run=run, now=now)
        judging = node.state == Node.State.JUDGING
        waits = judging and (run.device.state == Device.State.QUARANTINED or run.problem.quarantined)
        if node.attempts >= MAX_ATTEMPTS and not waits:
            return _give_up(run, node, f"Its worker died {node.attempts} times.", now)
        if not node.unclaimed:
            event_write(run=run, event=LeaseExpired(number=node.number, attempts=node.attempts))
        _put_back(node, node.lease_owner, now, RESENT_S - QUEUE_S)
        if waits or (judging and run.device.remote):
            return []  # it waits until a quarantine ends, or for an outcome file
        return [
            FollowUp("judge_node" if judging else "propose", node.pk, queue=run.device.queue if judging else IO_QUEUE)
        ]


def _put_back(node: Node, owner: str, now: datetime, wait_s: float, *, count: bool = True) -> None:
    """Free the node for the next claim. `count=False`: the attempt was no crash and does not use one up."""
    held = Node.objects.filter(pk=node.pk, lease_owner=owner, state__in=Node.IN_FLIGHT)
    attempts = F("attempts") if count else F("attempts") - 1
    held.renew(now=now, for_s=wait_s + QUEUE_S, lease_owner=RETRY if wait_s else QUEUED, attempts=attempts)


def _give_up(run: Run, node: Node, message: str, now: datetime) -> list[FollowUp]:
    """Complete a node as lost, so that its run can end."""
    learning = node_complete(
        run=run, node=node, owner=node.lease_owner, now=now, reason=LOST_ATTEMPTS, message=clip(message, 4000)
    )
    return learning or []


def _pause(run: Run, node: Node, message: str) -> list[FollowUp]:
    reason = clip(f"Paused: the proposer failed {MAX_RETRIES} times in a row. {message}", 200)
    node_cancel(run=run, node=node, why=reason)
    run.state, run.stop_reason = Run.State.PAUSED, reason
    run.save(update_fields=["state", "stop_reason"])
    event_write(run=run, event=RunPaused(by="", reason=reason))
    return []


# A run driven by a command is taken over only after this silence: between two of its tasks nothing is in flight.
COMMAND_SILENCE_S = 60.0
LEARN_SILENCE_S = 60.0


def reap(*, now: datetime | None = None) -> list[FollowUp]:
    """Follow-up tasks for expired leases, and for running runs with budget and free places but no step in flight."""
    now = now or timezone.now()
    follow_ups = Node.objects.filter(state__in=Node.IN_FLIGHT).only("run").reap(now, lease_expired)
    known = {follow_up.target for follow_up in follow_ups if follow_up.task == "advance"}
    follow_ups += [FollowUp("advance", run_id) for run_id in _idle_runs(now) if run_id not in known]
    return follow_ups + [FollowUp("learn", failure_id) for failure_id in _unlearned(now)]


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
    idle = idle.exclude(adapt_task__adapt__lease_until__gt=now).exclude(adapt_control__adapt__lease_until__gt=now)
    return list(idle.order_by("pk").values_list("pk", flat=True))
