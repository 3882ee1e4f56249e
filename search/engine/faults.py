"""Faults that blame no candidate: the proposer's endpoint, the judge itself, a worker that died."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import F

from judge.devices.models import Device
from judge.values import JudgeError
from search.engine.completion import node_cancel, node_tell, nodes_cancel, run_end, run_follow, run_locked
from search.engine.leases import MAX_ATTEMPTS, QUEUE_S, QUEUED, RESENT_S, RETRY
from search.engine.proposals import proposals_record
from search.proposers.protocol import Call, ProposerError
from search.records.events import LeaseExpired, ProposerRetry, RunPaused
from search.records.facts import LOST_ATTEMPTS
from search.records.follow_ups import IO_QUEUE, Hop
from search.records.log import event_write
from search.records.models import Node, Run
from search.records.texts import clip

MAX_RETRIES = 8
LONGEST_WAIT_S = 60.0


def proposer_fault(*, node: Node, owner: str, error: ProposerError, now: datetime) -> list[Hop]:
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
        return [Hop("propose", node.pk, delay_s=wait_s)]


def judge_fault(*, node: Node, owner: str, error: JudgeError, now: datetime) -> list[Hop]:
    """Try again later; after the last attempt the node is told as lost."""
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
        return [Hop("judge_node", node.pk, queue=run.device.queue, delay_s=wait_s)]


def lease_expired(found: Node, now: datetime) -> list[Hop]:
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
        waits = judging and run.device.state == Device.State.QUARANTINED
        if node.attempts >= MAX_ATTEMPTS and not waits:
            return _give_up(run, node, f"Its worker died {node.attempts} times.", now)
        if node.lease_owner not in (QUEUED, RETRY):
            event_write(run=run, event=LeaseExpired(number=node.number, attempts=node.attempts))
        _put_back(node, node.lease_owner, now, RESENT_S - QUEUE_S)
        if waits or (judging and run.device.remote):
            return []  # nobody takes it: it waits for the device to be believed again, or for an outcome file
        return [Hop("judge_node" if judging else "propose", node.pk, queue=run.device.queue if judging else IO_QUEUE)]


def _put_back(node: Node, owner: str, now: datetime, wait_s: float, *, count: bool = True) -> None:
    """Free the node for the next claim. `count=False`: the attempt was no crash and does not use one up."""
    held = Node.objects.filter(pk=node.pk, lease_owner=owner, state__in=Node.IN_FLIGHT)
    attempts = F("attempts") if count else F("attempts") - 1
    held.renew(now=now, for_s=wait_s + QUEUE_S, lease_owner=RETRY if wait_s else QUEUED, attempts=attempts)


def _give_up(run: Run, node: Node, message: str, now: datetime) -> list[Hop]:
    """Tell a node as lost, so that it cannot hang its run."""
    told = node_tell(
        run=run, node=node, owner=node.lease_owner, now=now, reason=LOST_ATTEMPTS, message=clip(message, 4000)
    )
    return told or []


def _pause(run: Run, node: Node, message: str) -> list[Hop]:
    reason = clip(f"Paused: the proposer failed {MAX_RETRIES} times in a row. {message}", 200)
    node_cancel(run=run, node=node, why=reason)
    run.state, run.stop_reason = Run.State.PAUSED, reason
    run.save(update_fields=["state", "stop_reason"])
    event_write(run=run, event=RunPaused(by="", reason=reason))
    return []
