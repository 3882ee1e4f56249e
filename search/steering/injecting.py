"""A kernel written by hand as a node of a running search: judged like any other, marked as a person's."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from adaexplore_site.core.audit import ActionRefused
from judge.sources.checks import ProblemRejected, check_candidate
from judge.values import canonical_hash
from search.algorithm.tree import LARGE, SMALL
from search.engine.budgets import hand_hold
from search.engine.leases import QUEUE_S, QUEUED
from search.engine.sketches import sketch
from search.ledger.limits import Amounts
from search.proposers.exchange import MAX_REPLY_BYTES
from search.records.follow_ups import Hop
from search.records.models import Node, Run
from search.steering.desk import Desk, Done, steer
from search.steering.run import steps_add

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

BY_HAND = "written by hand"


def steer_inject(
    *,
    run: Run,
    source: str,
    user: AbstractBaseUser | None,
    number: int = 0,
    kind: str = LARGE,
    key: str | None = None,
) -> list[Hop]:
    """Add a kernel below node `number` and send it to the judge, whatever else is in flight.

    It brings its own step: the budget grows by one, so that the search keeps all of its own. Every other limit must
    have room for it. `kind` says what it is: a structure of its own (large), or an edit of its parent (small). Raises
    ActionRefused with what to change.
    """
    try:
        text = check_candidate(source, max_bytes=MAX_REPLY_BYTES)
    except ProblemRejected as error:
        raise ActionRefused(str(error)) from error

    def act(desk: Desk) -> Done:
        parent = desk.open_branch(number)
        if kind not in (LARGE, SMALL):
            raise ActionRefused(f"A step is {LARGE} or {SMALL}, not {kind!r}.")
        if kind == SMALL and not parent.written:
            raise ActionRefused(f"Node {number} has no kernel of which this could be an edit. Add it as a large step.")
        if not parent.told:
            raise ActionRefused(f"Node {number} has no verdict yet. Add the kernel below another node, or wait.")
        steps_add(desk, 1)
        hold = hand_hold(desk.run)
        place = {"number": desk.rows[-1].number + 1, "parent": number, "kind": kind}
        payload = {**place, "steps": 1, "total": desk.run.steps}
        return Done(payload, then=lambda: [_judged(desk, place, desk.rows[number].id, text, hold)])

    return steer(run=run, verb="steer.inject", user=user, key=key, act=act)


def _judged(desk: Desk, place: dict[str, Any], parent_id: int, source: str, hold: Amounts) -> Hop:
    """Write the node with its events; it waits for the judge."""
    node = Node.objects.create(
        run=desk.run,
        number=place["number"],
        parent_id=parent_id,
        kind=place["kind"],
        state=Node.State.JUDGING,
        source=source,
        source_hash=canonical_hash(source),
        sketch=sketch(source),
        summary=BY_HAND,
        touched=True,
        held=hold.to_json(),
        lease_owner=QUEUED,
        lease_until=desk.now + timedelta(seconds=QUEUE_S),
    )
    desk.event("node.reserved", {**place, "context": [], "by_hand": True})
    desk.event("node.proposed", {"number": node.number, "source_hash": node.source_hash, "summary": BY_HAND})
    return Hop("judge_node", node.pk, queue=desk.run.device.queue)
