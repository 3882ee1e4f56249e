"""What the budget panel says: spent, held, limit and what is to come, each kind on a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Count, Sum

from judge.templatetags.units import duration
from search.ledger.books import books_of, ledger_of, limits_of
from search.ledger.limits import Forecast, Ledger, Range, RunLimits, forecast, limit_amounts
from search.ledger.spending import NOTHING, Amount, calls_by_node
from search.records.models import Node, Run

RECENT = 200  # told steps that the forecast looks at
TITLES = {
    "steps": "Steps",
    "evaluations": "Evaluations",
    "device_ms": "Device time",
    "tokens": "Tokens",
    "usd": "Money",
}


@dataclass(frozen=True)
class BudgetLine:
    """One kind. Texts carry their units; `share` and `held_share` are percent of the limit."""

    name: str
    title: str
    spent: str
    held: str = ""
    limit: str = ""
    to_come: str = ""
    note: str = ""
    share: int = 0
    held_share: int = 0


@dataclass(frozen=True)
class BudgetPanel:
    """The panel. `goals` are sentences; `saved_s` device seconds not spent, thanks to `reused` known verdicts."""

    lines: tuple[BudgetLine, ...]
    goals: tuple[str, ...]
    forecast: Forecast
    reused: int
    saved_s: float


def budget_panel(run: Run) -> BudgetPanel:
    """The panel's facts, read now. Nothing in it grows with the page."""
    limits, (ledger, calls) = limits_of(run), books_of(run.pk)
    coming = forecast_of(run, limits, ledger, billed=calls != NOTHING)
    saved = Node.objects.filter(run=run, reused=True).aggregate(n=Count("pk"), ms=Sum("evaluation__wall_ms"))
    return BudgetPanel(
        lines=tuple(_lines(limits, ledger, calls, coming)),
        goals=goals(limits),
        forecast=coming,
        reused=saved["n"],
        saved_s=(saved["ms"] or 0.0) / 1000,
    )


def forecast_of(run: Run, limits: RunLimits, ledger: Ledger, *, billed: bool) -> Forecast:
    """For the steps that are not told yet, from the newest told ones. An ended run has none to come."""
    told = Node.objects.filter(run=run, state=Node.State.TOLD).exclude(kind=Node.Kind.ROOT).order_by("-told_order")
    rows = list(told.values_list("pk", "created_at", "told_at", "reused", "evaluation__wall_ms")[:RECENT])
    known = list(calls_by_node(run.pk, [row[0] for row in rows] if billed else []).values())
    return forecast(
        steps_left=0 if run.ended else max(limits.steps - ledger.spent.steps, 0),
        concurrency=run.concurrency,
        step_s=[max((ended - born).total_seconds(), 0.0) for _, born, ended, _, _ in rows if ended],
        device_s=[0.0 if reused or ms is None else ms / 1000 for _, _, _, reused, ms in rows],
        tokens=[call.tokens for call in known if not call.untold],
        usd=[call.usd for call in known if not call.unpriced],
    )


def _lines(limits: RunLimits, ledger: Ledger, calls: Amount, coming: Forecast) -> list[BudgetLine]:
    bounds = limit_amounts(limits)
    billed = calls != NOTHING
    return [
        _line(name, bounds.get(name), ledger, calls, coming)
        for name in TITLES
        if billed or name in bounds or name not in ("tokens", "usd")
    ]


def _line(name: str, limit: Any, ledger: Ledger, calls: Amount, coming: Forecast) -> BudgetLine:
    spent, held = getattr(ledger.spent, name), getattr(ledger.reserved, name)
    known, missing, lacking = {
        "tokens": (calls.tokens, calls.untold, "without a count"),
        "usd": (calls.usd, calls.unpriced, "unpriced"),
    }.get(name, (spent, 0, ""))
    ranges = {"device_ms": coming.device_s, "tokens": coming.tokens, "usd": coming.usd}
    return BudgetLine(
        name=name,
        title=TITLES[name],
        spent=("at least " if missing else "") + said(name, known),
        held=said(name, held) if held and limit is not None else "",
        limit="" if limit is None else said(name, limit),
        to_come=_to_come(name, ranges.get(name), coming),
        note=f"{missing} call{'s' * (missing != 1)} {lacking}" if missing else "",
        share=_percent(spent, limit),
        held_share=_percent(held, limit),
    )


def _to_come(name: str, span: Range | None, coming: Forecast) -> str:
    if not coming.steps:
        return ""
    if name == "steps":
        return f"{coming.steps} to come"
    if name == "evaluations":
        return f"up to {coming.steps} to come"
    if span is None:
        return "to come: not known yet"
    if name == "device_ms":
        return f"{duration(span.low)} to {duration(span.high)} to come"
    if name == "usd":
        return f"${span.low:.2f} to ${span.high:.2f} to come"
    return f"{span.low:,.0f} to {span.high:,.0f} to come"


def said(name: str, value: Any) -> str:
    """An amount with its unit."""
    if name == "usd":
        return f"${value:.2f}" if value >= 1 or not value else f"${value:.4f}"
    return duration(value / 1000) if name == "device_ms" else f"{value:,}"


def _percent(part: Any, whole: Any) -> int:
    return min(100, round(100 * float(part) / float(whole))) if whole else 0


def goals(limits: RunLimits) -> tuple[str, ...]:
    """The limits that end a search without being spent, as sentences."""
    found = []
    if limits.wall_s is not None:
        found.append(f"No new step starts after {duration(limits.wall_s)}.")
    if limits.stale_steps is not None:
        found.append(f"Ends after {limits.stale_steps} steps without a new best.")
    if limits.target_speedup is not None:
        found.append(f"Ends when the audited best reaches {limits.target_speedup:.2f}×.")
    if limits.roofline_share is not None:
        found.append(f"Ends when the audited best reaches {limits.roofline_share:.0%} of the roofline.")
    return tuple(found)


Told = tuple[int, datetime | None, float | None]


def told_of(run: Run) -> list[Told]:
    """(row id, when it was told, milliseconds of the device unless none were used) in completion order."""
    told = Node.objects.filter(run=run, state=Node.State.TOLD).exclude(kind=Node.Kind.ROOT).order_by("told_order")
    rows = told.values_list("pk", "told_at", "reused", "evaluation__wall_ms")
    return [(pk, at, None if reused else ms) for pk, at, reused, ms in rows]


def burn_down(run: Run, told: Iterable[Told], calls: Mapping[int, Amount]) -> dict[str, Sequence[Any]]:
    """Columns over the told steps in completion order: seconds since the start, and what was spent by then."""
    at_s: list[float | None] = []
    judged: list[int] = []
    device_s: list[float] = []
    tokens: list[int] = []
    usd: list[str] = []
    evaluations, spent_s, used, money, text = 0, 0.0, 0, Decimal(0), "0"
    began = run.created_at
    for pk, at, ms in told:
        if ms is not None:
            evaluations, spent_s = evaluations + 1, spent_s + ms / 1000
        call = calls.get(pk)
        if call:
            used, money = used + call.tokens, money + call.usd
            text = str(money)
        at_s.append(max(0.0, (at - began).total_seconds()) if at else None)  # clocks of two machines may differ
        judged.append(evaluations)
        device_s.append(round(spent_s, 3))
        tokens.append(used)
        usd.append(text)
    table: dict[str, Sequence[Any]] = {
        "at_s": at_s,
        "evaluations": judged,
        "device_s": device_s,
        "tokens": tokens,
        "usd": usd,
    }
    return {"steps": list(range(1, len(at_s) + 1)), **table}


def budget_document(run: Run) -> dict[str, Any]:
    """The books as JSON: limits, spent, held (money as text) and the burn-down."""
    limits, ledger = limits_of(run), ledger_of(run.pk)
    return {
        "run": run.pk,
        "limits": {"steps": limits.steps, **run.limits},
        "spent": ledger.spent.to_json(),
        "reserved": ledger.reserved.to_json(),
        "burn_down": burn_down(run, told_of(run), calls_by_node(run.pk)),
    }
