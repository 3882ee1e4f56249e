"""Keeps what failed, in the cluster of its cause."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from adaexplore_site.core.text import storable_text
from memory.failures.fingerprints import Fingerprint, fingerprint
from memory.failures.models import Failure, FailureCluster
from memory.patterns.messages import MESSAGE_CHARS
from memory.patterns.table import BY_CODE
from memory.rules.desk import rules_locked

BATCH = 500


@dataclass(frozen=True)
class Told:
    """A told node that did not pass.

    `stage` and `reason` are the judge's, or "proposal" and the proposal's reason; `cost_s` the seconds of judging and
    of the proposer's calls, None where not known.
    """

    node_id: int
    run_id: int
    problem_id: int
    device_id: int
    verdict: str
    stage: str
    reason: str
    message: str
    told_at: datetime
    cost_s: float | None = None

    @property
    def common(self) -> Fingerprint:
        return fingerprint(self.stage, self.reason or self.verdict, storable_text(self.message))


@dataclass(frozen=True)
class Reclustered:
    """What a rebuild did: failures looked at, failures whose cluster is another one now, clusters left empty."""

    seen: int = 0
    moved: int = 0
    emptied: int = 0


def failure_record(
    *,
    node_id: int,
    run_id: int,
    problem_id: int,
    device_id: int,
    verdict: str,
    stage: str,
    reason: str,
    message: str,
    told_at: datetime,
    cost_s: float | None = None,
) -> Failure:
    """Keep one, in the transaction that tells it. A second call for a node changes nothing."""
    told = Told(node_id, run_id, problem_id, device_id, verdict, stage, reason, message, told_at, cost_s)
    failures_record(told=[told])
    return Failure.objects.get(node_id=node_id)


@transaction.atomic
def failures_record(*, told: Sequence[Told]) -> int:
    """Keep many with a few queries. What is kept already stays as it is. How many were given."""
    clusters = clusters_of(row.common for row in told)
    Failure.objects.bulk_create(
        (
            Failure(
                node_id=row.node_id,
                run_id=row.run_id,
                problem_id=row.problem_id,
                device_id=row.device_id,
                cluster_id=clusters[row.common.key],
                verdict=row.verdict,
                stage=row.stage,
                reason=row.reason,
                message=storable_text(row.message[:MESSAGE_CHARS]),
                cost_s=row.cost_s,
                told_at=row.told_at,
            )
            for row in told
        ),
        batch_size=BATCH,
        ignore_conflicts=True,
    )
    return len(told)


def clusters_of(common: Iterable[Fingerprint]) -> dict[str, int]:
    """Row ids by key; clusters that nobody has seen before are made."""
    wanted = {found.key: found for found in common}
    known = _known(wanted)
    new = [wanted[key] for key in sorted(wanted.keys() - known.keys())]  # in one order: two at once wait, no deadlock
    if not new:
        return known
    FailureCluster.objects.bulk_create(
        (
            FailureCluster(
                key=found.key,
                stage=found.stage,
                kind=found.kind,
                operator=found.operator,
                pattern=found.pattern,
                text=storable_text(found.text),
            )
            for found in new
        ),
        batch_size=BATCH,
        ignore_conflicts=True,  # somebody else met the same cause at the same time
    )
    return _known(wanted)


def _known(keys: Iterable[str]) -> dict[str, int]:
    wanted = list(keys)
    found: dict[str, int] = {}
    for start in range(0, len(wanted), BATCH):
        rows = FailureCluster.objects.filter(key__in=wanted[start : start + BATCH])
        found.update(rows.values_list("key", "pk"))
    return found


@rules_locked()  # whoever learns or proposes locks the same failures, in another order
def failures_recluster() -> Reclustered:
    """Put every failure into the cluster that today's normaliser and table of known errors give it. Idempotent.

    What people decided about a cluster stays with it; a cluster that nothing falls into any more is removed, unless
    another one was merged into it. A failure that changes its cluster and taught nothing is asked again.
    """
    _retitle()
    rows = Failure.objects.order_by("pk").values_list(
        "pk", "cluster__key", "stage", "reason", "verdict", "message", "lesson"
    )
    moves: dict[Fingerprint, list[int]] = {}
    again: list[int] = []
    seen = 0
    for pk, key, stage, reason, verdict, message, lesson in rows.iterator(chunk_size=2000):
        seen += 1
        common = fingerprint(stage, reason or verdict, message)
        if common.key != key:
            moves.setdefault(common, []).append(pk)
            if lesson == Failure.Lesson.NOTHING:
                again.append(pk)
    clusters = clusters_of(moves)
    for common, ids in moves.items():
        for start in range(0, len(ids), BATCH):
            Failure.objects.filter(pk__in=ids[start : start + BATCH]).update(cluster_id=clusters[common.key])
    for start in range(0, len(again), BATCH):
        Failure.objects.filter(pk__in=again[start : start + BATCH]).update(lesson="", lesson_why="")
    empty = FailureCluster.objects.filter(Q(failures__isnull=True) & Q(merged__isnull=True))
    emptied = empty.count()
    empty.delete()
    return Reclustered(seen, sum(map(len, moves.values())), emptied)


def _retitle() -> None:
    """A known error may have got another title since: its key does not hang on it."""
    for row in FailureCluster.objects.exclude(pattern=""):
        pattern = BY_CODE.get(row.pattern)
        if pattern is not None and row.text != pattern.title:
            FailureCluster.objects.filter(pk=row.pk).update(text=pattern.title)
