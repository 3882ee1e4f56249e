"""Adds a call or a verdict to what its search has spent. Inside the caller's transaction with the run row locked."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.db.models import F
from django.utils import timezone

from judge.models import Evaluation
from search.models import Node, Proposal
from search.proposers.protocol import Call
from search.spend_models import Spending
from search.spending import FREE_MODELS


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
    first = Proposal.objects.filter(node=node, attempt=1).values_list("model", flat=True).first() or ""
    model = "" if first in FREE_MODELS else first
    spent = {"reused": 1, "saved_ms": evaluation.wall_ms} if reused else {"device_ms": evaluation.wall_ms}
    _add(node, now, model, Spending.Kind(node.kind), **spent)


def _add(node: Node, at: datetime, model: str, kind: Spending.Kind, **amounts: Any) -> None:
    place = {"run_id": node.run_id, "day": at.astimezone(UTC).date(), "model": model, "kind": kind.value}
    known = Spending.objects.filter(**place)
    if not known.update(**{name: F(name) + amount for name, amount in amounts.items()}):
        Spending.objects.create(**place, **amounts)
