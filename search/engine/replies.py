"""What comes of a reply: a kernel for the judge, or the end of the node with a reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused, action_done
from adaexplore_site.core.text import storable_text
from judge.values import canonical_hash
from search.engine.briefing import task_of
from search.engine.completion import node_tell, run_locked
from search.engine.leases import PERSON, QUEUE_S, QUEUED
from search.engine.proposals import proposals_record
from search.engine.sketches import sketch
from search.proposers.protocol import Call, Reply
from search.proposers.replies import parse_reply, storable
from search.records.actions import action_record
from search.records.events import event_write
from search.records.follow_ups import Hop
from search.records.models import Node, Proposal
from search.records.texts import clip

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

UNCHANGED = "proposal.unchanged"
UNCHANGED_MESSAGE = "The reply leaves the kernel as it is; nothing to judge."


def reply_take(*, node: Node, owner: str, reply: Reply, now: datetime) -> list[Hop] | None:
    """Store a reply of the node's holder: on to the judge, or told at once when it holds no new kernel.

    None when `owner` no longer holds the node.
    """
    reason, message = reply.reason, reply.message
    source = storable_text(reply.source)
    source_hash = canonical_hash(source) if source else ""
    drawn = sketch(source)
    if source_hash and node.kind == Node.Kind.SMALL and node.parent and source_hash == node.parent.source_hash:
        reason, message = UNCHANGED, UNCHANGED_MESSAGE
    with transaction.atomic():
        run = run_locked(node.run_id)
        held = Node.objects.filter(pk=node.pk, state=Node.State.PROPOSING, lease_owner=owner)
        written = {"source": source, "source_hash": source_hash, "summary": clip(reply.summary, 200), "sketch": drawn}
        if run is None or not held.update(**written):
            return None
        proposals_record(node=node, proposer=run.proposer, calls=reply.calls)
        if reason:
            return node_tell(
                run=run, node=node, owner=owner, now=now, reason=clip(reason, 60), message=clip(message, 4000)
            )
        until = now + timedelta(seconds=QUEUE_S)
        held.update(state=Node.State.JUDGING, lease_owner=QUEUED, lease_until=until, attempts=0)
        payload = {"number": node.number, "source_hash": source_hash, "summary": written["summary"]}
        event_write(run=run, kind="node.proposed", payload=payload)
        return [Hop("judge_node", node.pk, queue=run.device.queue)]


def reply_submit(*, node: Node, text: str, user: AbstractBaseUser | None, key: str | None = None) -> list[Hop]:
    """Take the reply a person wrote for a waiting node. The caller sends the hops.

    The same `key` again does nothing. Raises ActionRefused, changing nothing, when the node no longer waits or the
    text holds no usable kernel: the message says what is expected.
    """
    if action_done(key=key, verb="node.reply"):
        return []
    node = Node.objects.select_related("run__problem", "run__device", "parent").get(pk=node.pk)
    reply = parse_reply(task_of(node), text)
    if reply.reason:
        raise ActionRefused(reply.message)
    with transaction.atomic():
        run = run_locked(node.run_id)
        if action_done(key=key, verb="node.reply"):
            return []
        call = Call(reply=storable(text), model=Proposal.PERSON)
        hops = reply_take(node=node, owner=PERSON, reply=replace(reply, calls=(call,)), now=timezone.now())
        if run is None or hops is None:
            raise ActionRefused(f"Node {node.number} no longer waits for a reply.")
        Node.objects.filter(pk=node.pk).update(touched=True)
        action_record(verb="node.reply", run=run, user=user, key=key, after={"number": node.number})
        return hops
