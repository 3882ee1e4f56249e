"""Adds up what was spent, in the database, from the sums that every call and verdict left."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from django.db.models import F, Q, Sum

from judge.devices.models import Device
from search.ledger.amounts import Amount
from search.ledger.models import Spending

GROUPS = ("search", "model", "kind")
NO_MODEL = "no model"  # kernels nobody was paid for
KINDS = {
    Spending.Kind.LARGE.value: "large steps",
    Spending.Kind.SMALL.value: "small steps",
    Spending.Kind.AGAIN.value: "retried",
    Spending.Kind.RECHECK.value: "judged again",
    Spending.Kind.TASK.value: "composing practice tasks",
    Spending.Kind.LESSON.value: "writing rules",
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
    """Group -> amount. Groups are search numbers (adapt runs in words), model names or kinds of call. One query; its
    cost grows with searches and days, not with calls."""
    by = {"search": ("run", "adapt"), "model": ("model",), "kind": ("kind",)}[group]
    found: dict[Any, Amount] = {}
    for row in Spending.objects.filter(period.within("day")).order_by().values(*by).annotate(**_SUMS):
        key, amount = _key(group, row), amount_of(row)
        found[key] = found.get(key, Amount()) + amount
    return found


def calls_of_day_and_month(today: date) -> tuple[Amount, Amount]:
    """The calls of the day and of its month so far, without device time. One query."""
    names = ("calls", "unpriced", "usd")
    sums = {f"month_{name}": Sum(name, default=0) for name in names}
    sums |= {f"day_{name}": Sum(name, filter=Q(day=today), default=0) for name in names}
    found = Spending.objects.filter(Period(today.replace(day=1), today).within("day")).aggregate(**sums)
    day, month = ({name: found[f"{part}{name}"] for name in names} for part in ("day_", "month_"))
    return _calls(day), _calls(month)


def _calls(found: dict[str, Any]) -> Amount:
    return Amount(**{**found, "usd": Decimal(found["usd"]).quantize(MICRO)})


def unpriced_by_model(period: Period) -> list[tuple[str, int, int, int]]:
    """(model, calls, tokens in, tokens out) of what has no price and all its tokens: sums that hold no priced call."""
    whole = Spending.objects.filter(period.within("day"), calls__gt=0, unpriced=F("calls"), untold=0)
    rows = whole.order_by().values_list("model").annotate(Sum("calls"), Sum("tokens_in"), Sum("tokens_out"))
    return list(rows)


_GPU, _INTERPRETER = (Q(run__device__kind=kind) for kind in (Device.Kind.CUDA, Device.Kind.INTERPRETER))
_SUMS: dict[str, Any] = {
    f"sum_{name}": Sum(name, default=0)
    for name in ("calls", "tokens_in", "tokens_out", "untold", "usd", "unpriced", "reused")
} | {
    "sum_gpu_ms": Sum("device_ms", filter=_GPU, default=0.0),
    "sum_interpreter_ms": Sum("device_ms", filter=_INTERPRETER, default=0.0),
    "sum_saved_ms": Sum("saved_ms", default=0.0),
}


def _key(group: str, row: dict[str, Any]) -> Any:
    if group == "search":
        return row["run"] or f"adapt run {row['adapt']}"
    return KINDS[row["kind"]] if group == "kind" else row["model"] or NO_MODEL


def amount_of(row: dict[str, Any]) -> Amount:
    """The sums of one row of the database; SQLite adds up binary fractions, so money goes to the millionth."""
    sums = {name.removeprefix("sum_"): value for name, value in row.items() if name.startswith("sum_")}
    return Amount(**{**sums, "usd": Decimal(sums["usd"]).quantize(MICRO)})
