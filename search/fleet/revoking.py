"""Takes an evaluation that is on a device back and queues it anew: for a worker that hangs, or a device in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused, action_done
from search.engine.completion import run_locked
from search.engine.leases import QUEUE_S, QUEUED, RETRY
from search.records.actions import action_record
from search.records.events import LeaseExpired
from search.records.follow_ups import Hop
from search.records.log import event_write
from search.records.models import Node

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

REVOKE = "node.revoke"


def node_revoke(*, node: Node, user: AbstractBaseUser | None, key: str | None = None) -> list[Hop]:
    """Free the node for the next worker; what the caller then sends. What its worker still finds out tells nothing.

    It uses up no attempt. Raises ActionRefused when nobody judges it any more.
    """
    now = timezone.now()
    with transaction.atomic():
        run = run_locked(node.run_id)
        if run is None:
            raise ActionRefused("This search no longer exists.")
        if action_done(key=key, verb=REVOKE) is not None:
            return []
        held = Node.objects.filter(pk=node.pk, state=Node.State.JUDGING).held(now)
        held = held.exclude(lease_owner__in=("", QUEUED, RETRY, Node.PERSON))
        if not held.renew(now=now, for_s=QUEUE_S, lease_owner=QUEUED, attempts=F("attempts") - 1):
            raise ActionRefused(f"Node {node.number} is not on a device any more: it was judged, or it waits already.")
        who = f" by {user.get_username()}" if user else ""
        message = f"Taken back from {run.device.name}{who}."
        event_write(run=run, event=LeaseExpired(number=node.number, message=message))
        after = {"number": node.number, "device": run.device.name}
        action_record(verb=REVOKE, run=run, user=user, key=key, after=after)
    return [Hop("judge_node", node.pk, queue=run.device.queue)]
