"""Keeps failures in the clusters of their causes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import Q

from adaexplore_site.core.text import storable_text
from memory.failures.models import Failure, FailureCluster
from memory.patterns.fingerprints import Fingerprint, fingerprint
from memory.patterns.messages import MESSAGE_CHARS
from memory.patterns.table import BY_CODE
from memory.rules.services import rules_locked

BATCH = 500


@dataclass(frozen=True)
class Reclustered:
    """What a rebuild did: failures looked at, failures whose cluster is another one now, clusters left empty."""

    seen: int = 0
    moved: int = 0
    emptied: int = 0


@transaction.atomic
def failures_record(*, failures: Sequence[Failure]) -> int:
    """Save these new failures in the clusters of their causes, with a few queries; in the transaction that completes
    their nodes. What is kept already stays as it is. How many were given."""
    causes = [fingerprint(row.stage, row.reason or row.verdict, storable_text(row.message)) for row in failures]
    clusters = clusters_of(causes)
    for row, cause in zip(failures, causes, strict=True):
        row.cluster_id, row.message = clusters[cause.key], storable_text(row.message[:MESSAGE_CHARS])
    Failure.objects.bulk_create(failures, batch_size=BATCH, ignore_conflicts=True)
    return len(failures)


def clusters_of(common: Iterable[Fingerprint]) -> dict[str, int]:
    """Row ids by key; new clusters are made."""
    wanted = {found.key: found for found in common}
    known = _known(wanted)
    new = [wanted[key] for key in sorted(wanted.keys() - known.keys())]  # in one order: no deadlock
    if not new:
        return known
    rows = [FailureCluster(key=one.key, **{**vars(one), "text": storable_text(one.text)}) for one in new]
    FailureCluster.objects.bulk_create(rows, batch_size=BATCH, ignore_conflicts=True)  # another process may be first
    return _known(wanted)


def _known(keys: Iterable[str]) -> dict[str, int]:
    wanted = list(keys)
    found: dict[str, int] = {}
    for start in range(0, len(wanted), BATCH):
        rows = FailureCluster.objects.filter(key__in=wanted[start : start + BATCH])
        found.update(rows.values_list("key", "pk"))
    return found


@rules_locked()  # learning and proposing lock the same failures in another order
def failures_recluster() -> Reclustered:
    """Put every failure into the cluster that the present normaliser and table of known errors give it. Idempotent.

    What people decided about a cluster stays with it; a cluster that nothing falls into any more is removed, unless
    another one was merged into it. A failure that changes its cluster and taught nothing is distilled again.
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
    """A known error may have another title by now: its key does not depend on it."""
    for row in FailureCluster.objects.exclude(pattern=""):
        pattern = BY_CODE.get(row.pattern)
        if pattern is not None and row.text != pattern.title:
            FailureCluster.objects.filter(pk=row.pk).update(text=pattern.title)
