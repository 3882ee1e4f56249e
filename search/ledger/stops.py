"""When a run has had enough, in a sentence that names the limit and the numbers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from search.ledger.ledger import Ledger, limit_amounts, places, step_hold
from search.ledger.limits import RunLimits


@dataclass(frozen=True)
class Progress:
    """Where a run stands. `best_speedup` is that of the audited best, with the told order at which it came.

    `best_words` is the same speedup for people, with interval, n and basis.
    `bound_share` is the roofline's bound over the best's time (0..1, None when either is unknown).
    """

    told: int
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
    stale = progress.told - (progress.best_order or 0)
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
