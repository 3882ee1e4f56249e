"""The arithmetic of a budget: what is spent, what is held for steps in flight, how many more steps may begin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, Self

from search.ledger.limits import RunLimits

WORDS = {
    "steps": "steps",
    "evaluations": "evaluations",
    "device_ms": "device seconds",
    "tokens": "tokens",
    "usd": "money",
}


@dataclass(frozen=True)
class Amounts:
    """An amount of everything that is counted. Whole numbers and Decimals, so that sums are exact."""

    steps: int = 0
    evaluations: int = 0
    device_ms: int = 0
    tokens: int = 0
    usd: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        if any(getattr(self, field.name) < 0 for field in fields(self)):
            raise ValueError("an amount is never negative")

    def __add__(self, other: Amounts) -> Amounts:
        return Amounts(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def largest(self, other: Amounts) -> Amounts:
        """The larger of the two in each kind."""
        return Amounts(*(max(getattr(self, field.name), getattr(other, field.name)) for field in fields(self)))

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types, money as text; `from_json` is its inverse."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Missing kinds are 0: nothing was held of them."""
        money = {"usd": Decimal(data["usd"])} if "usd" in data else {}
        return cls(**{**data, **money})


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value


@dataclass(frozen=True)
class Entry:
    """One node in the books.

    `held` was reserved for it, `used` is what its calls and its evaluation are known to have taken. A call without a
    token count or a price leaves `tokens_unknown` or `usd_unknown`: such a step counts as no less than what was held
    for it, so that an unknown is never taken for nothing. A withdrawn node has used no step.
    """

    open: bool
    held: Amounts
    used: Amounts
    tokens_unknown: bool = False
    usd_unknown: bool = False

    @property
    def reserved(self) -> Amounts:
        """What is held beyond what is used already; nothing once the node has ended."""
        if not self.open:
            return Amounts()
        return Amounts(*(max(getattr(self.held, f.name) - getattr(self.spent, f.name), 0) for f in fields(Amounts)))

    @property
    def spent(self) -> Amounts:
        """What counts against the limits as used."""
        used = self.used
        tokens = max(used.tokens, self.held.tokens) if self.tokens_unknown else used.tokens
        usd = max(used.usd, self.held.usd) if self.usd_unknown else used.usd
        return Amounts(used.steps, used.evaluations, used.device_ms, tokens, usd)


@dataclass(frozen=True)
class Ledger:
    """Sums over a run. `largest` is the most that one step is known to have used, of each kind."""

    spent: Amounts = Amounts()
    reserved: Amounts = Amounts()
    largest: Amounts = Amounts()

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Self:
        """The books of these nodes."""
        spent, reserved, largest = Amounts(), Amounts(), Amounts()
        for entry in entries:
            spent += entry.spent
            reserved += entry.reserved
            largest = largest.largest(entry.used)
        return cls(spent, reserved, largest)

    def joined(self, spent: Amounts, largest: Amounts) -> Ledger:
        """These books with what other, ended nodes have used."""
        return Ledger(self.spent + spent, self.reserved, self.largest.largest(largest))


@dataclass(frozen=True)
class Places:
    """How many steps may begin now; when none, the kind that stands against it."""

    count: int
    bound: str = ""


def limit_amounts(limits: RunLimits) -> dict[str, Any]:
    """The hard limits by the names of `Amounts`; those that are not set are left out."""
    found = {
        "steps": limits.steps,
        "evaluations": limits.evaluations,
        "device_ms": None if limits.device_s is None else int(limits.device_s * 1000),
        "tokens": limits.tokens,
        "usd": limits.usd,
    }
    return {name: value for name, value in found.items() if value is not None}


def step_hold(limits: RunLimits, ledger: Ledger) -> Amounts:
    """What the next step reserves: its configured share, or as much as the largest step so far."""
    counted = limit_amounts(limits)
    device_ms = round(limits.step_device_s * 1000) if "device_ms" in counted else 0
    tokens = limits.step_tokens if "tokens" in counted else 0
    usd = (limits.step_usd or Decimal(0)) if "usd" in counted else Decimal(0)
    return Amounts(
        steps=1,
        evaluations=1,
        device_ms=max(device_ms, ledger.largest.device_ms) if device_ms else 0,
        tokens=max(tokens, ledger.largest.tokens) if tokens else 0,
        usd=max(usd, ledger.largest.usd) if usd else Decimal(0),
    )


def places(limits: RunLimits, ledger: Ledger, wanted: int) -> Places:
    """At most `wanted` steps, such that spent + reserved stays within every hard limit."""
    hold, count, bound = step_hold(limits, ledger), wanted, ""
    for name, limit in limit_amounts(limits).items():
        left = limit - getattr(ledger.spent, name) - getattr(ledger.reserved, name)
        step = getattr(hold, name)
        room = max(int(left // step), 0) if step else (0 if left < 0 else count)
        if room < count:
            count, bound = room, name
    return Places(count, bound if count == 0 else "")


def kept(limits: RunLimits, ledger: Ledger) -> bool:
    """Whether spent + reserved is within every hard limit."""
    return all(
        getattr(ledger.spent, name) + getattr(ledger.reserved, name) <= limit
        for name, limit in limit_amounts(limits).items()
    )
