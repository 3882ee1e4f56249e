"""How a node and a run end. Every function runs inside the caller's transaction with the run row locked."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Max

from judge.evaluations.models import Evaluation
from judge.values import Verdict
from search.algorithm.ranking import rank
from search.algorithm.reward import reward
from search.engine.failures import failure_keep
from search.engine.spending import verdict_add
from search.ledger.books import stop_of
from search.ledger.limits import Stop
from search.records.events import event_write
from search.records.facts import fingerprint_of, verdict_of
from search.records.follow_ups import Hop
from search.records.models import Node, Run
from search.records.queries import best_node
from search.records.texts import clip
from search.records.winning import has_won, standing_of

BY_MARK = {"because": "marked"}  # in node.best: a mark made it the best, nobody has found anything new


def run_locked(run_id: int) -> Run | None:
    """The run with its row locked until commit, or None when it is gone."""
    return Run.objects.select_for_update().filter(pk=run_id).first()


def node_tell(
    *,
    run: Run,
    node: Node,
    owner: str,
    now: datetime,
    evaluation: Evaluation | None = None,
    reused: bool = False,
    reason: str = "",
    message: str = "",
) -> list[Hop] | None:
    """End the node if `owner` still holds it in its known state; None when the race is lost.

    With an evaluation its verdict counts; without, `reason` says why there is none and the reward is 0.
    Writes node.told, node.best when it is the new best, keeps a failure, and ends the run when its budget is told.
    """
    if evaluation is not None:  # with its marks, which nobody changes before this search is known to have the kernel
        evaluation = Evaluation.objects.select_for_update(no_key=True).get(pk=evaluation.pk)
    previous = best_node(run.pk)
    order = 1 + (Node.objects.filter(run=run).aggregate(last=Max("told_order"))["last"] or 0)
    held = Node.objects.filter(pk=node.pk, state=node.state, lease_owner=owner)
    if not held.update(
        state=Node.State.TOLD,
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
    event_write(run=run, kind="node.told", payload=told_payload(node, evaluation))
    if evaluation is not None:
        verdict_add(node=node, evaluation=evaluation, reused=reused, now=now)
    learning = failure_keep(run=run, node=node, evaluation=evaluation, now=now)
    if evaluation is not None and is_better(node.number, evaluation, previous):
        event_write(run=run, kind="node.best", payload=best_payload(node, evaluation))
    return learning + run_follow(run=run, now=now)


def is_better(number: int, evaluation: Evaluation, previous: Node | None) -> bool:
    """True when an audited pass ranks above the best so far."""
    if evaluation.verdict != Verdict.PASS or evaluation.speedup is None or not evaluation.may_be_best:
        return False
    if previous is None or previous.evaluation is None:
        return True
    return rank(evaluation.speedup, number) > rank(previous.evaluation.speedup, previous.number)


def told_payload(node: Node, evaluation: Evaluation | None) -> dict[str, Any]:
    """What node.told says."""
    payload: dict[str, Any] = {
        "number": node.number,
        "order": node.told_order,
        "verdict": verdict_of(evaluation.verdict if evaluation else None, node.kind, node.reason),
        "stage": evaluation.stage if evaluation else "proposal",
        "reason": evaluation.reason if evaluation else node.reason,
        "reward": reward_of(evaluation),
        "reused": node.reused,
        "source_hash": node.source_hash,
    }
    if evaluation is not None and evaluation.doubt:
        payload["doubt"] = evaluation.doubt  # of an equal kernel, before this one
    return payload | speedup_payload(evaluation)


def reward_of(evaluation: Evaluation | None) -> float:
    """Reward of a told node; 0 without an evaluation."""
    if evaluation is None:
        return 0.0
    return reward(loads=evaluation.loads, correct=evaluation.verdict == Verdict.PASS, speedup=evaluation.speedup)


def speedup_payload(evaluation: Evaluation | None) -> dict[str, Any]:
    """The headline figure with its interval, sample count and basis; Nones when there is none."""
    return {
        "speedup": evaluation and evaluation.speedup,
        "low": evaluation and evaluation.speedup_low,
        "high": evaluation and evaluation.speedup_high,
        "n": evaluation and evaluation.speedup_n,
        "basis": evaluation.basis if evaluation else "",
    }


def best_payload(node: Node, evaluation: Evaluation) -> dict[str, Any]:
    """What node.best says: enough for the chart and the run list. `won`: whether it beat PyTorch."""
    return {
        "number": node.number,
        "order": node.told_order,
        "evaluation": evaluation.pk,
        "won": has_won(evaluation),
        **speedup_payload(evaluation),
    }


def node_cancel(*, run: Run, node: Node, why: str) -> bool:
    """Withdraw a node in flight: no visit, no reward, its place in the budget is free again."""
    in_flight = Node.objects.filter(pk=node.pk, state__in=Node.IN_FLIGHT)
    if not in_flight.update(
        state=Node.State.CANCELLED, lease_owner="", lease_until=None, reason="cancelled", message=why
    ):
        return False
    event_write(run=run, kind="node.cancelled", payload={"number": node.number, "why": clip(why, 300)})
    return True


def nodes_cancel(*, run: Run, why: str) -> None:
    """Withdraw every node in flight."""
    for node in Node.objects.filter(run=run, state__in=Node.IN_FLIGHT).order_by("number"):
        node_cancel(run=run, node=node, why=why)


def run_follow(*, run: Run, now: datetime) -> list[Hop]:
    """What comes after a node has ended: the end of a run that is drained or has had enough, else the next step."""
    if run.ended or Node.objects.filter(run=run, state__in=Node.IN_FLIGHT).exists():
        return [Hop("advance", run.pk)] if run.state == Run.State.RUNNING and run.concurrency > 1 else []
    if run.state == Run.State.STOPPING:
        run_end(run=run, state=Run.State.STOPPED, reason=run.stop_reason, now=now)
    elif (stop := stop_of(run, now)) is not None:
        run_end(
            run=run, state=Run.State.FINISHED, reason="" if stop.limit == "steps" else stop.text, now=now, stop=stop
        )
    return [Hop("advance", run.pk)] if run.state == Run.State.RUNNING else []


def told_count(run: Run) -> int:
    """Told nodes, the root not counted."""
    return Node.objects.filter(run=run, state=Node.State.TOLD).exclude(kind=Node.Kind.ROOT).count()


def run_end(*, run: Run, state: Run.State, reason: str, now: datetime, stop: Stop | None = None) -> None:
    """Close the run in `state` and say so."""
    run.state, run.stop_reason, run.ended_at = state, clip(reason, 200), now
    run.save(update_fields=["state", "stop_reason", "ended_at"])
    best = best_node(run.pk)
    payload = {"state": state.value, "reason": run.stop_reason, "told": told_count(run)}
    if stop is not None:
        payload["limit"] = stop.limit
    payload |= {"best": best and best.number, "won": standing_of(run.pk).best}
    event_write(run=run, kind="run.ended", payload=payload)
