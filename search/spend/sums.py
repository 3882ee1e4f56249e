"""Adds up what searches have spent, in the database, from the sums that every call and verdict left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from django.db.models import Q, Sum

from judge.models import Device
from memory.models import AdaptTask
from search.models import Spending
from search.spend.values import Amount

GROUPS = ("search", "model", "kind")
COMPOSING, LESSONS = "composing practice tasks", "wording rules"
NO_MODEL = "no model"  # kernels nobody was paid for
KINDS = {
    Spending.Kind.LARGE.value: "large steps",
    Spending.Kind.SMALL.value: "small steps",
    Spending.Kind.AGAIN.value: "asked again",
}
MICRO = Decimal("0.000001")


@dataclass(frozen=True)
class Period:
    """Days in UTC, both included; None is open."""

    first: date | None = None
    last: date | None = None

    def within(self, field: str) -> Q:
        """The condition on a day."""
        first = Q() if self.first is None else Q(**{f"{field}__gte": self.first})
        return first if self.last is None else first & Q(**{f"{field}__lte": self.last})

    @property
    def whole(self) -> bool:
        return self.first is None and self.last is None


def spent_by(group: str, period: Period) -> dict[Any, Amount]:
    """Group -> amount. Groups are search numbers, model names or kinds of call. Two queries; their cost grows with
    searches and days, not with calls."""
    found: dict[Any, Amount] = {}
    for key, amount in [*_searches(group, period), *_adapt(group, period)]:
        found[key] = found.get(key, Amount()) + amount
    return found


def _searches(group: str, period: Period) -> Iterable[tuple[Any, Amount]]:
    by = {"search": "run", "model": "model", "kind": "kind"}[group]
    gpu, interpreter = (Q(run__device__kind=kind) for kind in (Device.Kind.CUDA, Device.Kind.INTERPRETER))
    rows = Spending.objects.filter(period.within("day")).order_by().values(by)
    sums = {name: Sum(name) for name in ("calls", "tokens_in", "tokens_out", "untold", "usd", "unpriced", "reused")}
    times = {
        "gpu_ms": Sum("device_ms", filter=gpu, default=0.0),
        "interpreter_ms": Sum("device_ms", filter=interpreter, default=0.0),
        "saved_ms": Sum("saved_ms"),
    }
    for row in rows.annotate(**{f"sum_{name}": one for name, one in {**sums, **times}.items()}):
        amount = {name.removeprefix("sum_"): value for name, value in row.items() if name != by}
        amount["usd"] = Decimal(amount["usd"]).quantize(MICRO)
        key = row[by] or NO_MODEL if by == "model" else KINDS[row[by]] if by == "kind" else row[by]
        yield key, Amount(**amount)


def _adapt(group: str, period: Period) -> Iterable[tuple[Any, Amount]]:
    """Calls of adapt runs outside of searches. They keep no time of their own: no period holds them."""
    if not period.whole:
        return
    rows = AdaptTask.objects.filter(Q(recipe__has_key="call") | Q(recipe__has_key="lessons"))
    for recipe, adapt_id in rows.values_list("recipe", "adapt"):
        own = [(COMPOSING, recipe.get("call")), *((LESSONS, call) for call in recipe.get("lessons") or ())]
        for kind, call in own:
            if call:
                key = {"search": f"adapt run {adapt_id}", "model": call.get("model") or "unnamed", "kind": kind}[group]
                yield key, amount_of(call)


def amount_of(call: dict[str, Any]) -> Amount:
    """One call as kept beside an adapt run's task."""
    into, out, usd = call.get("tokens_in"), call.get("tokens_out"), call.get("usd")
    return Amount(
        calls=1,
        tokens_in=into or 0,
        tokens_out=out or 0,
        untold=int(into is None or out is None),
        usd=Decimal(usd) if usd is not None else Decimal(0),
        unpriced=int(usd is None),
    )
