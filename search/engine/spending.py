"""Adds a call or a verdict to what its search or adapt run has spent.

Inside the caller's transaction, which holds a lock that no other writer of the same row passes: a run's row, an adapt
run's row, or that of rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db.models import F
from django.utils import timezone

from adaexplore_site.core.text import storable_text
from judge.evaluations.models import Evaluation
from search.ledger.models import Spending
from search.ledger.spending import FREE_MODELS
from search.proposers.protocol import Call
from search.records.models import Node, Proposal


def calls_add(*, node: Node, calls: Iterable[tuple[int, Call]]) -> None:
    """Billed calls with the number of their attempt."""
    for attempt, call in calls:
        if call.model in FREE_MODELS:
            continue
        kind = Spending.Kind.AGAIN if attempt > 1 else Spending.Kind(node.kind)
        _add(
            node,
            timezone.now(),
            call.model[:120],
            kind,
            calls=1,
            tokens_in=call.tokens_in or 0,
            tokens_out=call.tokens_out or 0,
            untold=int(call.tokens_in is None or call.tokens_out is None),
            usd=call.price_usd or Decimal(0),
            unpriced=int(call.price_usd is None),
        )


def verdict_add(*, node: Node, evaluation: Evaluation, reused: bool, now: datetime) -> None:
    """The device time of a verdict, or what a known one saved, beside the model that was asked first."""
    spent = {"reused": 1, "saved_ms": evaluation.wall_ms} if reused else {"device_ms": evaluation.wall_ms}
    _add(node, now, _first_model(node), Spending.Kind(node.kind), **spent)


def stopped_add(*, node: Node, device_ms: float, now: datetime) -> None:
    """The device time of an evaluation that was stopped before its verdict."""
    _add(node, now, _first_model(node), Spending.Kind.STOPPED, device_ms=device_ms)


def _first_model(node: Node) -> str:
    first = Proposal.objects.filter(node=node, attempt=1).values_list("model", flat=True).first() or ""
    return "" if first in FREE_MODELS else first


def recheck_add(*, node: Node, evaluations: Iterable[Evaluation], now: datetime) -> None:
    """The device time of a kernel that was judged once more, its rival's with it."""
    _add(node, now, "", Spending.Kind.RECHECK, device_ms=sum(one.wall_ms for one in evaluations))


def recheck_stopped_add(*, node: Node, device_ms: float, now: datetime) -> None:
    """The same of one that was stopped."""
    _add(node, now, "", Spending.Kind.RECHECK, device_ms=device_ms)


def adapt_call_add(adapt_id: int, call: Mapping[str, Any], *, kind: Spending.Kind) -> None:
    """A call that an adapt run made outside of its searches."""
    into, out, usd = call.get("tokens_in"), call.get("tokens_out"), call.get("usd")
    _put(
        {"adapt_id": adapt_id, "model": (call.get("model") or "unnamed")[:120], "kind": kind.value},
        timezone.now(),
        calls=1,
        tokens_in=into or 0,
        tokens_out=out or 0,
        untold=int(into is None or out is None),
        usd=Decimal(usd or 0),
        unpriced=int(usd is None),
    )


def _add(node: Node, at: datetime, model: str, kind: Spending.Kind, **amounts: Any) -> None:
    _put({"run_id": node.run_id, "model": model, "kind": kind.value}, at, **amounts)


def _put(whose: dict[str, Any], at: datetime, **amounts: Any) -> None:
    place = {**whose, "day": at.astimezone(UTC).date()}
    known = Spending.objects.filter(**place)
    if not known.update(**{name: F(name) + amount for name, amount in amounts.items()}):
        Spending.objects.create(**place, **amounts)


def proposals_record(*, node: Node, proposer: str, calls: Iterable[Call]) -> None:
    """Append the calls to the node's record, in the caller's transaction with the run row locked."""
    first = Proposal.objects.filter(node=node).count() + 1
    numbered = list(enumerate(calls, start=first))
    calls_add(node=node, calls=numbered)
    Proposal.objects.bulk_create(
        Proposal(
            node=node,
            attempt=attempt,
            proposer=proposer,
            model=call.model[:120],
            template=call.template[:120],
            prompt=storable_text(call.prompt),
            reply=storable_text(call.reply),
            error=storable_text(call.error),
            tokens_in=call.tokens_in,
            tokens_out=call.tokens_out,
            price_usd=call.price_usd,
            latency_ms=call.latency_ms,
        )
        for attempt, call in numbered
    )
