"""What the page of spending shows and its files hold: one row per group, the total, prices and their dates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from django.utils import timezone

from adaexplore_site.core.llm import endpoint_from_settings
from judge.evaluations.measures import Measure
from judge.evaluations.models import Evaluation
from search.ledger.amounts import Amount, dollars
from search.ledger.ledger import Amounts
from search.ledger.listed import ListedPrice
from search.ledger.prices import BadPrices, Price, PriceTable
from search.ledger.pricing import Prices, price_table
from search.ledger.sums import Period, spent_by, unpriced_by_model
from search.records.facts import standings_logged
from search.records.models import Node, Run

SHOWN = 100  # rows on the page; the files hold all
TENTH = 0.1


@dataclass(frozen=True)
class Line:
    """One group. `run` and `best` only where groups are searches; `per_tenth` is the money for each 0.1 of speedup."""

    label: str
    amount: Amount
    run: Run | None = None
    best: Evaluation | None = None
    per_tenth: str = ""


@dataclass(frozen=True)
class Spending:
    """Groups with the most money first. `held_usd` is reserved for calls in flight: the most that they may cost."""

    lines: tuple[Line, ...]
    hidden: int
    total: Amount
    held_usd: Decimal
    prices: tuple[Price, ...] = ()
    price_error: str = ""
    unlisted: tuple[str, ...] = field(default=())  # models with unpriced calls
    priceless: tuple[str, ...] = field(default=())  # those of them without a price today
    estimate: Estimate | None = None


@dataclass(frozen=True)
class Estimate:
    """What unpriced calls would have cost at the prices of today. Never part of a sum."""

    calls: int
    usd: Decimal


def spending(by: str, period: Period, *, shown: int | None = SHOWN) -> Spending:
    """The page's facts. A constant number of queries."""
    groups = spent_by(by, period)
    models = groups if by == "model" else spent_by("model", period)
    total = sum(groups.values(), Amount())
    ordered = sorted(groups.items(), key=lambda item: (-item[1].usd, -item[1].unpriced, -_ms(item[1]), str(item[0])))
    kept = ordered[:shown]
    lines = _searches(kept, whole=period.whole) if by == "search" else [Line(str(key), one) for key, one in kept]
    try:
        table, error = price_table(), ""
    except BadPrices as bad:
        table, error = Prices(endpoint_from_settings(), PriceTable(), PriceTable()), str(bad)
    unlisted = tuple(sorted(str(name) for name, one in models.items() if one.unpriced))
    return Spending(
        tuple(lines),
        len(ordered) - len(kept),
        total,
        _held(),
        prices=(*(row for row in table.rows if row.model in models), *_listed(table, map(str, models))),
        price_error=error,
        unlisted=unlisted,
        priceless=tuple(name for name in unlisted if _price_now(table, name) is None),
        estimate=_estimate(table, period) if total.unpriced else None,
    )


def _price_now(table: Prices, model: str) -> Price | None:
    return table.find(model=model, on=timezone.now().date())


def _listed(table: Prices, models: Iterable[str]) -> list[Price]:
    """Those that the package's list decides."""
    return [price for name in sorted(models) if isinstance(price := _price_now(table, name), ListedPrice)]


def _estimate(table: Prices, period: Period) -> Estimate | None:
    """Of the calls whose model has a price by now and whose tokens are all known."""
    known = [
        (price.usd(into, out), calls)
        for model, calls, into, out in unpriced_by_model(period)
        if (price := _price_now(table, model)) is not None
    ]
    return Estimate(sum(calls for _, calls in known), sum((usd for usd, _ in known), Decimal(0))) if known else None


def _ms(amount: Amount) -> float:
    return amount.gpu_ms + amount.interpreter_ms


def _held() -> Decimal:
    """Dollars reserved for steps in flight, where a search limits its money."""
    held = Node.objects.filter(state__in=Node.IN_FLIGHT).exclude(held={}).values_list("held", flat=True)
    return sum((Amounts.from_json(one).usd for one in held), Decimal(0))


def _searches(groups: Iterable[tuple[Any, Amount]], *, whole: bool) -> list[Line]:
    """Rows of searches; those of adapt runs outside of searches come as their words."""
    rows = list(groups)
    ids = [key for key, _ in rows if isinstance(key, int)]
    runs = Run.objects.select_related("problem", "device").in_bulk(ids)
    bests = _bests(ids)
    lines = []
    for key, amount in rows:
        run = runs.get(key) if isinstance(key, int) else None
        if run is None:
            lines.append(Line(str(key), amount))
            continue
        best = bests.get(run.pk)
        price = per_tenth(amount, best) if whole and run.problem.state != "degenerate" else ""
        lines.append(Line(run.title or run.problem.title, amount, run, best, price))
    return lines


def _bests(run_ids: list[int]) -> dict[int, Evaluation]:
    """Run -> evaluation of its best kernel, where one beat PyTorch. Four queries."""
    standings, logged = standings_logged(run_ids)
    found = {
        run: best.evaluation for run, bests in logged.items() for best in bests if best.number == standings[run].best
    }
    evaluations = Evaluation.objects.defer("source", "report").in_bulk(found.values())
    return {run: evaluations[pk] for run, pk in found.items() if pk in evaluations}


def per_tenth(amount: Amount, best: Evaluation | None) -> str:
    """Money for each 0.1 of speedup above 1.0; empty where nothing was priced or won."""
    measure = Measure.of(best) if best is not None else None
    if measure is None or measure.value <= 1.0 or not amount.priced or not amount.usd:
        return ""
    each = amount.usd / (Decimal(measure.value - 1.0) / Decimal(TENTH))
    return f"{'at least ' if amount.unpriced else ''}{dollars(each)}"


NAMES = (
    "group", "run", "calls", "usd_known", "calls_unpriced", "tokens_in_known", "tokens_out_known", "calls_uncounted",
    "gpu_s", "interpreter_s", "known_verdicts", "saved_s", "best_speedup", "best_low", "best_high", "best_basis",
    "usd_per_tenth",
)  # fmt: skip


def records(found: Spending) -> list[dict[str, Any]]:
    """One plain mapping per group for the files; unknown is None."""
    return [dict(zip(NAMES, _record(line), strict=True)) for line in found.lines]


def _record(line: Line) -> tuple[Any, ...]:
    amount, best = line.amount, Measure.of(line.best) if line.best is not None else None
    evidence = (best.value, best.low, best.high, best.basis.value) if best else (None, None, None, None)
    return (
        line.label,
        line.run.pk if line.run else None,
        amount.calls,
        str(amount.usd) if amount.priced else None,
        amount.unpriced,
        amount.tokens_in,
        amount.tokens_out,
        amount.untold,
        round(amount.gpu_ms / 1e3, 3),
        round(amount.interpreter_ms / 1e3, 3),
        amount.reused,
        round(amount.saved_ms / 1e3, 3),
        *evidence,
        line.per_tenth or None,
    )
