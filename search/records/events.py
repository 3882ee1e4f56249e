"""The one writer of the run's event log."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import F

from search.algorithm.steering import BULK, UNDO, VERBS
from search.records import hints
from search.records.announcements import tell
from search.records.models import Run, RunEvent

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

PAYLOAD_BYTES = 2048
HISTORY = "history.act"  # what was done to an imported search where it was recorded: shown, never folded or replayed
STEERING = {f"steer.{verb}": verb for verb in (*VERBS, BULK, UNDO)}
KINDS = frozenset(
    {
        *STEERING,
        HISTORY,
        "run.branched",
        "run.started",
        "run.paused",
        "run.resumed",
        "run.stopping",
        "run.concurrency",
        "run.ended",
        "node.reserved",
        "node.proposed",
        "node.judging",
        "node.told",
        "node.best",
        "node.waiting",
        "node.cancelled",
        "proposer.retry",
        "lease.expired",
        "device.quarantined",
        "device.activated",
        "kernel.asked",
        "kernel.judged",
        "kernel.marked",
        "budget.added",
        "budget.taken",
    }
)


def event_write(*, run: Run, kind: str, payload: dict[str, Any], actor: AbstractBaseUser | None = None) -> RunEvent:
    """Append one event with the run's next number, inside the caller's transaction; hint at it after commit.

    The counter's UPDATE holds the row until commit, so numbers have no gaps and their order is commit order.
    Raises ValueError for an unknown kind or a payload over 2 kB, TransactionManagementError outside a transaction.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown event kind {kind!r}")
    if len(json.dumps(payload)) > PAYLOAD_BYTES:
        raise ValueError(f"the payload of {kind} is over {PAYLOAD_BYTES} bytes")
    if not transaction.get_connection().in_atomic_block:
        raise transaction.TransactionManagementError("event_write belongs in the transaction of the change")
    Run.objects.filter(pk=run.pk).update(event_seq=F("event_seq") + 1)
    run.event_seq = Run.objects.values_list("event_seq", flat=True).get(pk=run.pk)
    event = RunEvent.objects.create(run=run, seq=run.event_seq, kind=kind, payload=payload, actor=actor)  # type: ignore[misc]
    tell(run=run, kind=kind, payload=payload)
    transaction.on_commit(partial(hints.publish, run.pk, run.event_seq))
    return event
