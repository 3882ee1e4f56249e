"""Which told nodes memory is to keep as failures, one by one as they are told or many at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from django.db.models import F, OuterRef, Q, QuerySet, Subquery, Sum
from django.utils import timezone

from judge.evaluations.models import Evaluation
from judge.values import Verdict
from memory.failures.models import Failure
from memory.failures.services import Reclustered, failures_recluster, failures_record
from memory.prompting.models import RunMemory
from search.records.facts import verdict_of
from search.records.follow_ups import Hop
from search.records.models import Node, Run

BATCH = 1000


def failure_keep(*, run: Run, node: Node, evaluation: Evaluation | None, now: datetime) -> list[Hop]:
    """Hand a told node that did not pass to memory; the hop that learns from it where the search learns."""
    if evaluation is not None and evaluation.verdict == Verdict.PASS:
        return []
    calls_ms = node.proposals.aggregate(total=Sum("latency_ms"))["total"] or 0.0
    judged_ms = evaluation.wall_ms if evaluation and not node.reused else 0.0
    failures_record(failures=[failure_of(run, node, evaluation, now, cost_s=(calls_ms + judged_ms) / 1000)])
    failure = Failure.objects.get(node=node)
    learns = RunMemory.objects.filter(run=run, learns=True).exists()
    return [Hop("learn", failure.pk)] if learns and failure.lesson == Failure.Lesson.NONE else []


def failure_of(
    run: Run, node: Node, evaluation: Evaluation | None, now: datetime, *, cost_s: float | None = None
) -> Failure:
    """What memory keeps of a node that did not pass, unsaved. `cost_s`: of judging and of the proposer's calls,
    None where it is not known."""
    return Failure(
        node_id=node.pk,
        run_id=run.pk,
        problem_id=run.problem_id,
        device_id=run.device_id,
        verdict=verdict_of(evaluation.verdict if evaluation else None, node.kind, node.reason),
        stage=evaluation.stage if evaluation else "proposal",
        reason=evaluation.reason if evaluation else node.reason,
        message=evaluation.message if evaluation else node.message,
        told_at=now,
        cost_s=cost_s,
    )


def failures_keep(*, run: Run, nodes: Iterable[Node], now: datetime) -> int:
    """Hand the failing ones of these told nodes to memory at once, their cost unknown. How many there are."""
    failing = [node for node in nodes if node.evaluation is None or node.evaluation.verdict != Verdict.PASS]
    return failures_record(failures=[failure_of(run, node, node.evaluation, now) for node in failing])


@dataclass(frozen=True)
class RebuiltFailures:
    """`kept`: old nodes whose failure was not known; `relabelled`: nodes whose own fingerprint was another's."""

    kept: int
    clusters: Reclustered
    relabelled: int


def failures_rebuild() -> RebuiltFailures:
    """Keep every failure of old nodes, and put all of them where today's normaliser says. Idempotent."""
    kept = 0
    for batch in _batches(_forgotten().iterator(chunk_size=BATCH)):
        failures = [
            failure_of(node.run, node, node.evaluation, node.told_at or timezone.now(), cost_s=_cost_s(node))
            for node in batch
        ]
        kept += failures_record(failures=failures)
    clusters = failures_recluster()
    return RebuiltFailures(kept, clusters, _relabel())


def _forgotten() -> QuerySet[Node]:
    failing = Q(evaluation__isnull=True) | ~Q(evaluation__verdict=Verdict.PASS.value)
    nodes = Node.objects.filter(failing, state=Node.State.TOLD, failure__isnull=True).exclude(kind=Node.Kind.ROOT)
    calls = nodes.annotate(calls_ms=Sum("proposals__latency_ms")).order_by("told_at", "run", "told_order")
    return calls.select_related("run", "evaluation").defer(
        "source", "sketch", "evaluation__source", "evaluation__report"
    )


def _cost_s(node: Node) -> float | None:
    """As `failure_keep` would have told it; None for what others report."""
    if node.run.origin == Run.Origin.IMPORT:
        return None
    judged_ms = node.evaluation.wall_ms if node.evaluation and not node.reused else 0.0
    return ((getattr(node, "calls_ms", None) or 0.0) + judged_ms) / 1000


def _batches(nodes: Iterable[Node]) -> Iterator[list[Node]]:
    source = iter(nodes)
    while batch := list(islice(source, BATCH)):
        yield batch


def _relabel() -> int:
    key = Failure.objects.filter(node=OuterRef("pk")).values("cluster__key")[:1]
    other = Node.objects.filter(failure__isnull=False).exclude(fingerprint=F("failure__cluster__key"))
    ids = list(other.values_list("pk", flat=True))
    for start in range(0, len(ids), BATCH):
        Node.objects.filter(pk__in=ids[start : start + BATCH]).update(fingerprint=Subquery(key))
    return len(ids)
