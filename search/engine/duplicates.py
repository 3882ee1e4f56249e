"""Equal kernels at the same time: one is judged, the others wait for its verdict."""

from __future__ import annotations

from datetime import datetime

from judge.problems.models import Problem
from search.engine.leases import PERSON, QUEUE_S, QUEUED, RETRY
from search.records.follow_ups import Hop
from search.records.models import Node, Run

TWIN_WAIT_S = 2.0


def twin_judged(*, node: Node, run: Run, now: datetime) -> bool:
    """Whether a living worker judges an equal kernel on the same problem and device, in whatever search.

    In the caller's transaction: the problem's row is locked until commit, so that of two equal kernels claimed at the
    same moment the second sees the first. A dead worker's claim runs out, and the second goes on.
    """
    Problem.objects.select_for_update(no_key=True).filter(pk=run.problem_id).values_list("pk").first()
    twins = Node.objects.filter(source_hash=node.source_hash, state=Node.State.JUDGING).held(now)
    twins = twins.filter(run__problem=run.problem_id, run__device=run.device_id).exclude(pk=node.pk)
    return bool(node.source_hash) and twins.exclude(lease_owner__in=(QUEUED, RETRY, PERSON, "")).exists()


def twin_wait(*, node: Node, run: Run, now: datetime) -> list[Hop]:
    """Come back for a free node in a moment; no attempt is used up. Nothing when somebody holds the node."""
    free = Node.objects.filter(pk=node.pk, state=Node.State.JUDGING, lease_owner__in=(QUEUED, RETRY))
    if not free.renew(now=now, for_s=TWIN_WAIT_S + QUEUE_S, lease_owner=RETRY):
        return []
    return [Hop("judge_node", node.pk, queue=run.device.queue, delay_s=TWIN_WAIT_S)]
