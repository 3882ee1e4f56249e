"""How a node and a run end, and which failures memory keeps. Functions that end something run inside the caller's
transaction with the run row locked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from django.db.models import F, Max, OuterRef, Q, QuerySet, Subquery, Sum
from django.utils import timezone

from adaexplore_site.core.text import clip
from judge.evaluations.measures import BESIDE
from judge.evaluations.models import Evaluation
from judge.values import Verdict
from memory.failures.models import Failure
from memory.failures.services import Reclustered, failures_recluster, failures_record
from memory.prompting.models import RunMemory
from search.algorithm.ranking import rank, reward
from search.engine.spending import verdict_add
from search.ledger.books import stop_of
from search.ledger.limits import Stop
from search.records.events import NodeBest, NodeCancelled, NodeCompleted, RunEnded
from search.records.facts import fingerprint_of, has_won, standing_of, verdict_of
from search.records.log import event_write
from search.records.models import Node, Run
from search.records.queries import best_node
from search.records.queue import FollowUp

BATCH = 1000


def failure_keep(*, run: Run, node: Node, evaluation: Evaluation | None, now: datetime) -> list[FollowUp]:
    """Hand a completed node that did not pass to memory; the follow-up task that learns from it, if the search does."""
    if evaluation is not None and evaluation.verdict == Verdict.PASS:
        return []
    calls_ms = node.proposals.aggregate(total=Sum("latency_ms"))["total"] or 0.0
    judged_ms = evaluation.wall_ms if evaluation and not node.reused else 0.0
    failures_record(failures=[failure_of(run, node, evaluation, now, cost_s=(calls_ms + judged_ms) / 1000)])
    failure = Failure.objects.get(node=node)
    learns = RunMemory.objects.filter(run=run, learns=True).exists()
    return [FollowUp("learn", failure.pk)] if learns and failure.lesson == Failure.Lesson.NONE else []


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
    """Hand the failing ones of these completed nodes to memory at once, their cost unknown. How many there are."""
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
    nodes = Node.objects.filter(failing, failure__isnull=True).completed()
    calls = nodes.annotate(calls_ms=Sum("proposals__latency_ms")).order_by("told_at", "run", "told_order")
    return calls.select_related("run", "evaluation").defer(
        "source", "sketch", "evaluation__source", "evaluation__report"
    )


def _cost_s(node: Node) -> float | None:
    """As `failure_keep` would have reported it; None for what others report."""
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


BY_MARK = "marked"  # NodeBest.because: a mark made it the best, no new kernel was found


def run_locked(run_id: int) -> Run | None:
    """The run with its row locked until commit, or None when it is gone."""
    return Run.objects.select_for_update().filter(pk=run_id).first()


def node_complete(
    *,
    run: Run,
    node: Node,
    owner: str,
    now: datetime,
    evaluation: Evaluation | None = None,
    reused: bool = False,
    reason: str = "",
    message: str = "",
) -> list[FollowUp] | None:
    """End the node if `owner` still holds it in its known state; None when the race is lost.

    With an evaluation its verdict counts; without, `reason` says why there is none and the reward is 0.
    Writes the events, keeps a failure, and ends the run when its budget is used up.
    """
    if evaluation is not None:  # locked: its marks stay as they are until this search has the kernel
        evaluation = Evaluation.objects.select_for_update(no_key=True).get(pk=evaluation.pk)
    previous = best_node(run.pk)
    order = 1 + (Node.objects.filter(run=run).aggregate(last=Max("told_order"))["last"] or 0)
    held = Node.objects.filter(pk=node.pk, state=node.state, lease_owner=owner)
    if not held.update(
        state=Node.State.COMPLETED,
        told_order=order,
        told_at=now,
        evaluation=evaluation,
        reused=reused,
        reason=reason,
        message=message,
        fingerprint=fingerprint_of(evaluation, reason, message),
        lease_owner="",
        lease_until=None,
    ):
        return None
    node.refresh_from_db()
    event_write(run=run, event=completed_event(node, evaluation))
    if evaluation is not None:
        verdict_add(node=node, evaluation=evaluation, reused=reused, now=now)
    learning = failure_keep(run=run, node=node, evaluation=evaluation, now=now)
    if evaluation is not None and is_better(node.number, evaluation, previous):
        event_write(run=run, event=best_event(node, evaluation))
    return learning + run_follow(run=run, now=now)


def is_better(number: int, evaluation: Evaluation, previous: Node | None) -> bool:
    """True when an audited pass ranks above the best so far."""
    if evaluation.verdict != Verdict.PASS or evaluation.speedup is None or not evaluation.may_be_best:
        return False
    if previous is None or previous.evaluation is None:
        return True
    return rank(evaluation.speedup, number) > rank(previous.evaluation.speedup, previous.number)


def completed_event(node: Node, evaluation: Evaluation | None) -> NodeCompleted:
    """What the log says of a completed node."""
    return NodeCompleted(
        number=node.number,
        order=node.told_order,
        verdict=verdict_of(evaluation.verdict if evaluation else None, node.kind, node.reason),
        stage=evaluation.stage if evaluation else "proposal",
        reason=evaluation.reason if evaluation else node.reason,
        reward=reward_of(evaluation),
        reused=node.reused,
        source_hash=node.source_hash,
        doubt=evaluation.doubt if evaluation else "",
        **figure_of(evaluation),
    )


def reward_of(evaluation: Evaluation | None) -> float:
    """Reward of a completed node; 0 without an evaluation."""
    if evaluation is None:
        return 0.0
    return reward(loads=evaluation.loads, correct=evaluation.verdict == Verdict.PASS, speedup=evaluation.speedup)


def figure_of(evaluation: Evaluation | None) -> dict[str, Any]:
    """The headline figure with its interval, sample count and basis; Nones when there is none."""
    return {
        "speedup": evaluation and evaluation.speedup,
        "low": evaluation and evaluation.speedup_low,
        "high": evaluation and evaluation.speedup_high,
        "n": evaluation and evaluation.speedup_n,
        "basis": evaluation.basis if evaluation else "",
        **{name: evaluation and getattr(evaluation, name) for name in BESIDE},
        "fastest": evaluation.fastest if evaluation else "",
    }


def best_event(node: Node, evaluation: Evaluation, *, because: str = "") -> NodeBest:
    """What the log says of a new best: enough for the chart and the run list."""
    return NodeBest(
        number=node.number,
        order=node.told_order or 0,
        evaluation=evaluation.pk,
        won=has_won(evaluation),
        because=because,
        **figure_of(evaluation),
    )


def node_cancel(*, run: Run, node: Node, why: str) -> bool:
    """Withdraw a node in flight: no visit, no reward, its place in the budget is free again."""
    in_flight = Node.objects.filter(pk=node.pk, state__in=Node.IN_FLIGHT)
    if not in_flight.update(
        state=Node.State.CANCELLED, lease_owner="", lease_until=None, reason="cancelled", message=why
    ):
        return False
    event_write(run=run, event=NodeCancelled(number=node.number, why=clip(why, 300)))
    return True


def nodes_cancel(*, run: Run, why: str) -> None:
    """Withdraw every node in flight."""
    for node in Node.objects.filter(run=run, state__in=Node.IN_FLIGHT).order_by("number"):
        node_cancel(run=run, node=node, why=why)


def run_follow(*, run: Run, now: datetime) -> list[FollowUp]:
    """What comes after a node has ended: the end of a run that is drained or has had enough, else the next step."""
    if run.ended or Node.objects.filter(run=run, state__in=Node.IN_FLIGHT).exists():
        return [FollowUp("advance", run.pk)] if run.state == Run.State.RUNNING and run.concurrency > 1 else []
    if run.state == Run.State.STOPPING:
        run_end(run=run, state=Run.State.STOPPED, reason=run.stop_reason, now=now)
    elif (stop := stop_of(run, now)) is not None:
        run_end(
            run=run, state=Run.State.FINISHED, reason="" if stop.limit == "steps" else stop.text, now=now, stop=stop
        )
    return [FollowUp("advance", run.pk)] if run.state == Run.State.RUNNING else []


def told_count(run: Run) -> int:
    """Completed nodes, the root not counted."""
    return Node.objects.filter(run=run).completed().count()


def run_end(*, run: Run, state: Run.State, reason: str, now: datetime, stop: Stop | None = None) -> None:
    """Close the run in `state` and write the event."""
    run.state, run.stop_reason, run.ended_at = state, clip(reason, 200), now
    run.save(update_fields=["state", "stop_reason", "ended_at"])
    best = best_node(run.pk)
    ended = RunEnded(
        state=state.value,
        reason=run.stop_reason,
        told=told_count(run),
        limit=stop.limit if stop else "",
        best=best.number if best else None,
        won=standing_of(run.pk).best,
    )
    event_write(run=run, event=ended)
