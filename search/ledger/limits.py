"""What a run may use, and the arithmetic of its budget: limits, amounts, stops and forecasts. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from statistics import quantiles
from types import MappingProxyType
from typing import Any, Self

MAX_STEPS = 10_000  # of a new run
LONGEST = 1_000_000  # an imported or extended one may be longer

# name -> (kind, least and greatest allowed value, label in sentences)
_KNOWN: Mapping[str, tuple[type[Any], float, float, str]] = MappingProxyType(
    {
        "steps": (int, 1, LONGEST, "The budget of steps"),
        "evaluations": (int, 1, 1_000_000, "The limit of evaluations"),
        "device_s": (float, 1, 1e8, "The limit of device seconds"),
        "tokens": (int, 1, 10**12, "The limit of tokens"),
        "usd": (Decimal, 0.000001, 1e9, "The limit of money (US dollars)"),
        "wall_s": (float, 1, 1e8, "The limit of wall-clock seconds"),
        "stale_steps": (int, 1, LONGEST, "Steps without improvement"),
        "target_speedup": (float, 0.01, 1e6, "The target speedup"),
        "roofline_share": (float, 0.01, 1.0, "The share of the roofline"),
        "step_device_s": (float, 0.001, 1e6, "Device seconds held for a step"),
        "step_tokens": (int, 1, 10**9, "Tokens held for a step"),
        "step_usd": (Decimal, 0.000001, 1e6, "Money held for a step (US dollars)"),
    }
)


class BadLimit(ValueError):
    """A limit that cannot be; `name` is the field, "" where the sentence is about several."""

    def __init__(self, message: str, name: str = "") -> None:
        super().__init__(message)
        self.name = name


ADDABLE = ("steps", "evaluations", "device_s", "tokens", "usd", "wall_s", "stale_steps")


@dataclass(frozen=True)
class RunLimits:
    """What a run may use at most, and when it has reached its goal.

    Hard limits, held by reserving before spending: `steps` completed nodes, `evaluations` on the device (reused
    verdicts not counted), `device_s` seconds of the device's worker, `tokens` in and out, `usd`. `wall_s` counts from
    the start, pauses included; after it nothing new begins. Goals: no new best in the last `stale_steps` completed
    steps, an audited best of at least `target_speedup`, or one at `roofline_share` (0..1) of the problem's bound.
    `step_device_s`, `step_tokens` and `step_usd` are held for every step in flight; a larger step of the same run
    raises what is held for the next ones. Raises BadLimit with a sentence for a value out of range.
    """

    steps: int
    evaluations: int | None = None
    device_s: float | None = None
    tokens: int | None = None
    usd: Decimal | None = None
    wall_s: float | None = None
    stale_steps: int | None = None
    target_speedup: float | None = None
    roofline_share: float | None = None
    step_device_s: float = 60.0
    step_tokens: int = 40_000
    step_usd: Decimal | None = None

    def __post_init__(self) -> None:
        for name, (_, least, greatest, label) in _KNOWN.items():
            value = _typed(name, getattr(self, name))
            if value is None and name != "steps":
                continue
            if value is None or not _finite(value) or not least <= value <= greatest:
                raise BadLimit(f"{label} must be from {least:g} to {greatest:g}, not {value}.", name)
            object.__setattr__(self, name, value)
        if self.usd is not None and self.step_usd is None:
            raise BadLimit("A limit of money needs the amount to hold for a step: set step_usd.", "step_usd")
        for name in ("device_s", "tokens", "usd"):
            limit, step = getattr(self, name), getattr(self, f"step_{name}")
            if limit is not None and limit < step:
                raise BadLimit(
                    f"{_KNOWN[name][-1]} ({limit}) is below what is held for a single step ({step}): raise the limit, "
                    "or lower what a step may need.",
                    name,
                )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types without `steps`, which has a column of its own; money as text. No limit is left out."""
        plain = {name: value for name, value in dataclasses.asdict(self).items() if value is not None}
        plain.pop("steps")
        return {name: str(value) if isinstance(value, Decimal) else value for name, value in plain.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], *, steps: int) -> Self:
        """Limits from a mapping. Raises BadLimit on unknown names and on values out of range."""
        unknown = sorted(set(data) - set(_KNOWN))
        if unknown:
            raise BadLimit(f"Unknown limit {', '.join(unknown)}. Known: {', '.join(_KNOWN)}.")
        return cls(**{**data, "steps": steps})

    def extended(self, delta: Mapping[str, Any]) -> Self:
        """These limits with `delta` added. Raises ValueError for what cannot be added, or where there is no limit."""
        if not delta:
            raise ValueError(f"Specify what to add: {', '.join(ADDABLE)}.")
        changed: dict[str, Any] = {}
        for name, text in delta.items():
            if name not in ADDABLE:
                raise ValueError(f"{name} cannot be added to a budget. Choose from: {', '.join(ADDABLE)}.")
            amount, present = _typed(name, text), getattr(self, name)
            if amount is None or not _finite(amount) or amount <= 0:
                raise ValueError(f"The amount added to {name} must be more than 0, not {text}.")
            if present is None:
                raise ValueError(f"This search has no limit of {name}; there is nothing to add to.")
            changed[name] = present + amount
        return dataclasses.replace(self, **changed)


def _typed(name: str, value: Any) -> Any:
    """The value as its field holds it; texts are read. Raises BadLimit with a sentence."""
    if value is None or value == "":
        return None
    kind, _, _, label = _KNOWN[name]
    if isinstance(value, bool) or (kind is int and isinstance(value, float) and value != int(value)):
        raise BadLimit(f"{label} must be a whole number, not {value!r}.", name)
    try:
        return kind(str(value)) if kind is Decimal else kind(value)
    except (ValueError, TypeError, OverflowError, InvalidOperation):
        whole = "whole " if kind is int else ""
        raise BadLimit(f"{label} must be a {whole}number, not {value!r}.", name) from None


def _finite(value: Any) -> bool:
    """Whole numbers always are, also those that are larger than any float."""
    return isinstance(value, int) or math.isfinite(value)


def limits_from_texts(pairs: Iterable[str]) -> dict[str, str]:
    """Limits from `name=value` texts, as typed on a command line. Raises ValueError with the names there are."""
    names = [name for name in _KNOWN if name != "steps"]
    found = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or name not in names:
            raise ValueError(f"{pair!r} is not name=value with a name out of {', '.join(names)}.")
        found[name] = text
    return found


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
        return {**dataclasses.asdict(self), "usd": str(self.usd)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Missing kinds are 0: nothing was held of them."""
        return cls(**{**data, "usd": Decimal(data.get("usd", 0))})


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
    """How many steps may begin now; when none, the limit that prevents it."""

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


@dataclass(frozen=True)
class Progress:
    """Where a run stands. `best_speedup` is that of the audited best, with the completion number at which it came.

    `best_words` is the same speedup for people, with interval, n and basis.
    `bound_share` is the roofline's bound over the best's time (0..1, None when either is unknown).
    """

    completed: int
    best_order: int | None = None
    best_speedup: float | None = None
    bound_share: float | None = None
    best_words: str = ""


@dataclass(frozen=True)
class Stop:
    """Why nothing new begins. `limit` is the field of RunLimits; the sentence is for people."""

    limit: str
    text: str


def goal_stop(limits: RunLimits, progress: Progress, *, started: datetime, now: datetime) -> Stop | None:
    """The first of wall-clock, target, roofline and steps without improvement that is reached."""
    if limits.wall_s is not None and now >= started + timedelta(seconds=limits.wall_s):
        took = (now - started).total_seconds()
        return Stop("wall_s", f"Wall-clock limit reached: {took:.0f} of {limits.wall_s:.0f} s.")
    best = progress.best_speedup
    if limits.target_speedup is not None and best is not None and best >= limits.target_speedup:
        return Stop("target_speedup", f"Target of {limits.target_speedup:.2f}× reached: {progress.best_words}.")
    share = progress.bound_share
    if limits.roofline_share is not None and share is not None and share >= limits.roofline_share:
        text = f"Goal of {limits.roofline_share:.0%} of the roofline reached: {share:.0%} ({progress.best_words})."
        return Stop("roofline_share", text)
    stale = progress.completed - (progress.best_order or 0)
    if limits.stale_steps is not None and stale >= limits.stale_steps:
        return Stop(
            "stale_steps", f"No improvement in the last {stale} completed steps; the limit is {limits.stale_steps}."
        )
    return None


def budget_stop(limits: RunLimits, ledger: Ledger) -> Stop | None:
    """The hard limit that leaves no room for one more step; None while there is room."""
    bound = places(limits, ledger, 1).bound
    if not bound:
        return None
    limit, spent = limit_amounts(limits)[bound], getattr(ledger.spent, bound)
    held, step = getattr(ledger.reserved, bound), getattr(step_hold(limits, ledger), bound)
    name = "device_s" if bound == "device_ms" else bound
    text = f"{_TITLES[bound]} limit reached: {_said(bound, spent)} of {_said(bound, limit)} spent"
    if held:
        text += f", {_said(bound, held)} held for steps in flight"
    if spent + held < limit:
        text += f"; one more step may need {_said(bound, step)}"
    return Stop(name, text + ".")


_TITLES = {
    "steps": "Step",
    "evaluations": "Evaluation",
    "device_ms": "Device time",
    "tokens": "Token",
    "usd": "Money",
}


def _said(name: str, value: Any) -> str:
    if name == "usd":
        return f"${Decimal(value):.4f}".rstrip("0").rstrip(".")
    return f"{value / 1000:.1f} s" if name == "device_ms" else f"{value:,}"


ENOUGH = 3


@dataclass(frozen=True)
class Range:
    """From the lower to the upper quartile of the steps seen, times what is left. `n` is the number of steps seen."""

    low: float
    high: float
    n: int


@dataclass(frozen=True)
class Forecast:
    """For the `steps` left: seconds, device seconds, tokens and dollars. None: not known (yet)."""

    steps: int
    wall_s: Range | None = None
    device_s: Range | None = None
    tokens: Range | None = None
    usd: Range | None = None


def spread(values: Sequence[float], times: float) -> Range | None:
    """The middle half of `values` times `times`; None for fewer than three values."""
    if len(values) < ENOUGH:
        return None
    low, _, high = quantiles(values, n=4, method="inclusive")
    return Range(low * times, high * times, len(values))


def forecast(
    *,
    steps_left: int,
    concurrency: int,
    step_s: Sequence[float],
    device_s: Sequence[float],
    tokens: Sequence[int],
    usd: Sequence[Decimal],
) -> Forecast:
    """Quartiles over completed steps. Time runs in `concurrency` lanes; steps of unknown cost are left out before."""
    lanes = max(min(concurrency, steps_left), 1)
    return Forecast(
        steps=steps_left,
        wall_s=spread(step_s, steps_left / lanes),
        device_s=spread(device_s, steps_left),
        tokens=spread(tokens, steps_left),
        usd=spread([float(cost) for cost in usd], steps_left),
    )
