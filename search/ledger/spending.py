"""What was spent: one value, and one sum over the stored spending by any filter; the page of spending."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, fields
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.db.models import Count, DecimalField, F, Q, QuerySet, Sum
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from adaexplore_site.core.llm import endpoint_from_settings
from judge.devices.models import kinds
from judge.evaluations.measures import BESIDE_COLUMNS, Measure, beside_columns
from judge.evaluations.models import Evaluation
from judge.values import Basis
from search.ledger.limits import Amounts
from search.ledger.models import SpendBudget, Spending
from search.ledger.prices import BadPrices, ListedPrice, Price, Prices, PriceTable, price_table
from search.records.facts import standings_logged
from search.records.models import Node, Proposal, Run

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise


@dataclass(frozen=True)
class Amount:
    """Sums of what is known and counts of what is not.

    `usd` is of the priced calls, `unpriced` counts those without a price, `untold` those without a count of tokens.
    Device time is of judged kernels in milliseconds, on GPUs and on the interpreter apart; `reused` counts verdicts
    that were known already, `saved_ms` what they had cost the first time.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    untold: int = 0
    usd: Decimal = Decimal(0)
    unpriced: int = 0
    gpu_ms: float = 0.0
    interpreter_ms: float = 0.0
    reused: int = 0
    saved_ms: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    @property
    def priced(self) -> int:
        return self.calls - self.unpriced

    @property
    def money(self) -> str:
        """`$3.10`, `at least $3.10 (4 calls unpriced)`, `unknown (4 calls unpriced)`; empty without a billed call."""
        return f"{self.known} {self.gaps}".strip()

    @property
    def known(self) -> str:
        """`$3.10`, `at least $3.10`, `unknown`; empty without a billed call."""
        if not self.calls:
            return ""
        return _at_least(dollars(self.usd), self.unpriced) if self.priced else _("unknown")

    @property
    def gaps(self) -> str:
        """`(4 calls unpriced)`, or nothing."""
        text = ngettext("(%(count)s call unpriced)", "(%(count)s calls unpriced)", self.unpriced)
        return text % {"count": f"{self.unpriced:,}"} if self.unpriced else ""

    @property
    def tokens(self) -> int:
        """In and out, of the calls that reported them."""
        return self.tokens_in + self.tokens_out

    @property
    def device_ms(self) -> float:
        return self.gpu_ms + self.interpreter_ms

    @property
    def weight(self) -> tuple[Any, ...]:
        """Sorts the most expensive first."""
        return -self.usd, -self.unpriced, -self.device_ms

    @property
    def tokens_text(self) -> str:
        """`1,200`, `at least 1,200 (4 calls uncounted)`, `unknown (4 calls uncounted)`; empty without a billed call."""
        if not self.calls:
            return ""
        known = _("unknown") if self.untold == self.calls else _at_least(f"{self.tokens:,}", self.untold)
        gap = ngettext("(%(count)s call uncounted)", "(%(count)s calls uncounted)", self.untold)
        return f"{known} {gap % {'count': f'{self.untold:,}'}}" if self.untold else known


def dollars(value: Decimal) -> str:
    """`$3.10`; below a dollar four digits, so that a small sum is not nothing."""
    return (
        f"${value:,.2f}" if value >= 1 or not value else f"${value:.4f}" if value >= Decimal("0.0001") else "< $0.0001"
    )


def _at_least(amount: str, gaps: int) -> str:
    return _("at least %(amount)s") % {"amount": amount} if gaps else amount


NOTHING = Amount()
GROUPS = ("search", "model", "kind")
KINDS = {
    Spending.Kind.LARGE.value: gettext_lazy("large steps"),
    Spending.Kind.SMALL.value: gettext_lazy("small steps"),
    Spending.Kind.AGAIN.value: gettext_lazy("retried"),
    Spending.Kind.STOPPED.value: gettext_lazy("stopped before a verdict"),
    Spending.Kind.RECHECK.value: gettext_lazy("judged again"),
    Spending.Kind.TASK.value: gettext_lazy("composing practice tasks"),
    Spending.Kind.LESSON.value: gettext_lazy("writing rules"),
}
FREE_MODELS = ("", "builtin", "recorded", "person")  # not billed
UNTOLD = Q(tokens_in__isnull=True) | Q(tokens_out__isnull=True)
UNPRICED = Q(price_usd__isnull=True)
MICRO = Decimal("0.000001")
EVERYTHING = Q()


@dataclass(frozen=True)
class Period:
    """Days in UTC, both included; None is open."""

    first: date | None = None
    last: date | None = None

    @property
    def days(self) -> Q:
        """The condition on `Spending.day`."""
        first = Q() if self.first is None else Q(day__gte=self.first)
        return first if self.last is None else first & Q(day__lte=self.last)

    @property
    def whole(self) -> bool:
        return self.first is None and self.last is None


def of_adapt(adapt_id: int) -> Q:
    """The condition for an adapt run: its own calls, and those of its searches and their controls.

    Preflights of its tasks leave no spending; rechecks of its searches are part of it.
    """
    ids = {"run__adapt_task__adapt": adapt_id, "run__adapt_control__adapt": adapt_id, "adapt": adapt_id}
    return Q(*ids.items(), _connector=Q.OR)


def of_campaign(campaign_id: int) -> Q:
    """The condition for the searches of a campaign."""
    return Q(run__campaign_entry__campaign=campaign_id)


def spent(where: Q = EVERYTHING) -> Amount:
    """The sum of all spending that meets a condition on `Spending`: `Q(run=7)`, `Q(run__problem=3)`, `Q(model="x")`,
    `period.days`, `of_adapt(2)`, `of_campaign(1)`, or several with `&`. One query; its cost grows with searches and
    days, not with calls."""
    return _amount(Spending.objects.filter(where).aggregate(**_SUMS))


def spent_by(*fields: str, where: Q = EVERYTHING) -> dict[Any, Amount]:
    """The same for each value of one field of `Spending`, or for each tuple of several. One query."""
    rows = Spending.objects.filter(where).order_by().values(*fields).annotate(**_SUMS)
    return {tuple(row[name] for name in fields) if len(fields) > 1 else row[fields[0]]: _amount(row) for row in rows}


def calls_by_node(run_id: int, node_ids: Collection[int] | None = None) -> dict[int, Amount]:
    """The billed calls of these nodes, or of all, for those that have made any. One query."""
    if node_ids is not None and not node_ids:
        return {}
    calls = billed_calls(run_id) if node_ids is None else billed_calls(run_id).filter(node__in=node_ids)
    return {row["node"]: _amount(row) for row in calls}


def billed_calls(run_id: int) -> QuerySet[Proposal, Any]:
    """A row of sums for each node of a search with billed calls; `tokens` is in and out."""
    billed = Proposal.objects.filter(node__run=run_id).exclude(model__in=FREE_MODELS).order_by()
    sums = {f"sum_{name}": total for name, total in CALL_SUMS.items()}
    return billed.values("node").annotate(**sums, tokens=F("sum_tokens_in") + F("sum_tokens_out"))


_GPU = Q(run__device__kind__in=kinds(lambda traits: traits.basis is Basis.MEASURED))
_INTERPRETER = Q(run__device__kind__in=kinds(lambda traits: traits.basis is Basis.MODELLED))
_SUMS: dict[str, Any] = {
    f"sum_{name}": Sum(name, default=0)
    for name in ("calls", "tokens_in", "tokens_out", "untold", "usd", "unpriced", "reused")
} | {
    "sum_gpu_ms": Sum("device_ms", filter=_GPU, default=0.0),
    "sum_interpreter_ms": Sum("device_ms", filter=_INTERPRETER, default=0.0),
    "sum_saved_ms": Sum("saved_ms", default=0.0),
}
CALL_SUMS: dict[str, Any] = {
    "calls": Count("pk"),
    "tokens_in": Sum("tokens_in", default=0),
    "tokens_out": Sum("tokens_out", default=0),
    "untold": Count("pk", filter=UNTOLD),
    "usd": Sum("price_usd", default=0, output_field=DecimalField(max_digits=18, decimal_places=6)),
    "unpriced": Count("pk", filter=UNPRICED),
}


def _amount(row: dict[str, Any]) -> Amount:
    sums = {name.removeprefix("sum_"): value for name, value in row.items() if name.startswith("sum_")}
    return Amount(**{**sums, "usd": money(sums["usd"])})


def money(total: Any) -> Decimal:
    """A sum to the millionth: SQLite adds up binary fractions, and a difference of sums must not fall below zero."""
    return Decimal(total).quantize(MICRO)


@dataclass(frozen=True)
class Share:
    """One budget: `period` is its day or month as text, `limit` None without one. Only known money counts."""

    words: StrOrPromise  # today, this month
    period: str
    amount: Amount
    limit: Decimal | None
    percent: int

    @property
    def passed(self) -> bool:
        return self.limit is not None and self.amount.usd > self.limit

    @property
    def alarmed(self) -> bool:
        """At the share of it at which people want to hear of it, or beyond."""
        return self.limit is not None and self.amount.calls > 0 and self.amount.usd * 100 >= self.limit * self.percent

    @property
    def used(self) -> str:
        """`84 %`, at least so much where calls are unpriced; empty without a budget."""
        if not self.limit:
            return ""
        return _at_least(f"{self.amount.usd / self.limit:.0%}".replace("%", " %"), self.amount.unpriced)

    @property
    def said(self) -> str:
        """The alert as a sentence: of `passed` and `alarmed` whichever holds."""
        if self.limit is None:
            return ""
        text = _("%(used)s of the budget is spent: %(spent)s of %(limit)s %(period)s.")
        if self.passed:
            text = _("The budget is exceeded: %(spent)s of %(limit)s %(period)s.")
        spent, limit = self.amount.known or _("nothing"), dollars(self.limit)
        used = f"{self.used[:1].upper()}{self.used[1:]}"
        return text % {"used": used, "spent": spent, "limit": limit, "period": self.words}


@dataclass(frozen=True)
class Standing:
    """Both budgets. `budget` is the row that holds, None when none was set."""

    budget: SpendBudget | None
    day: Share
    month: Share

    @property
    def shares(self) -> tuple[Share, Share]:
        return self.day, self.month

    @property
    def alarmed(self) -> list[Share]:
        return [share for share in (self.month, self.day) if share.alarmed]

    @property
    def passed(self) -> Share | None:
        """The longer one first: what it pauses stays paused for longer."""
        return next((share for share in (self.month, self.day) if share.passed), None)

    @property
    def pauses(self) -> bool:
        return self.budget is not None and self.budget.pauses


def budget_now() -> SpendBudget | None:
    """The one that holds."""
    return SpendBudget.objects.order_by("-id").first()


def standing_of(now: datetime) -> Standing:
    """As of now; two queries whatever is stored. Days and months are UTC, as the sums are."""
    today = now.astimezone(UTC).date()
    days = spent_by("day", where=Period(today.replace(day=1), today).days)
    budget = budget_now()
    percent = budget.alert_percent if budget else 100
    day_usd, month_usd = (budget.day_usd, budget.month_usd) if budget else (None, None)
    day = Share(gettext_lazy("today"), today.isoformat(), days.get(today, NOTHING), day_usd, percent)
    month = Share(gettext_lazy("this month"), f"{today:%Y-%m}", sum(days.values(), NOTHING), month_usd, percent)
    return Standing(budget, day, month)


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
class SpendPage:
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


def spending(by: str, period: Period, *, shown: int | None = SHOWN) -> SpendPage:
    """The page's facts. A constant number of queries."""
    groups = _groups(by, period)
    models = groups if by == "model" else _groups("model", period)
    total = sum(groups.values(), NOTHING)
    ordered = sorted(groups.items(), key=lambda item: (*item[1].weight, str(item[0])))
    kept = ordered[:shown]
    lines = _searches(kept, whole=period.whole) if by == "search" else [Line(str(key), one) for key, one in kept]
    try:
        table, error = price_table(), ""
    except BadPrices as bad:
        table, error = Prices(endpoint_from_settings(), PriceTable(), PriceTable()), str(bad)
    unlisted = tuple(sorted(str(name) for name, one in models.items() if one.unpriced))
    return SpendPage(
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


def _groups(by: str, period: Period) -> dict[Any, Amount]:
    """Search numbers (adapt runs as text), model names or kinds of call -> amount."""
    if by == "search":
        found = spent_by("run", "adapt", where=period.days)
        return {run or _("adapt run %(number)s") % {"number": adapt}: amount for (run, adapt), amount in found.items()}
    labels = KINDS if by == "kind" else {"": _("no model")}
    return {labels.get(key, key): amount for key, amount in spent_by(by, where=period.days).items()}


def _price_now(table: Prices, model: str) -> Price | None:
    return table.find(model=model, on=timezone.now().date())


def _listed(table: Prices, models: Iterable[str]) -> list[Price]:
    """Those that the package's list decides."""
    return [price for name in sorted(models) if isinstance(price := _price_now(table, name), ListedPrice)]


def _estimate(table: Prices, period: Period) -> Estimate | None:
    """Of the calls whose model has a price by now and whose tokens are all known."""
    whole = spent_by("model", where=period.days & Q(calls__gt=0, unpriced=F("calls"), untold=0))
    known = [
        (price.usd(one.tokens_in, one.tokens_out), one.calls)
        for model, one in whole.items()
        if (price := _price_now(table, model)) is not None
    ]
    return Estimate(sum(calls for _, calls in known), sum((usd for usd, _ in known), Decimal(0))) if known else None


def _held() -> Decimal:
    """Dollars reserved for steps in flight, where a search limits its money."""
    held = Node.objects.filter(state__in=Node.IN_FLIGHT).exclude(held={}).values_list("held", flat=True)
    return sum((Amounts.from_json(one).usd for one in held), Decimal(0))


def _searches(groups: Iterable[tuple[Any, Amount]], *, whole: bool) -> list[Line]:
    """Rows of searches; those of adapt runs outside of searches come as their labels."""
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
    return _at_least(dollars(each), amount.unpriced)


NAMES = (
    "group", "run", "calls", "usd_known", "calls_unpriced", "tokens_in_known", "tokens_out_known", "calls_uncounted",
    "gpu_s", "interpreter_s", "known_verdicts", "saved_s", "best_speedup", "best_low", "best_high", "best_basis",
    "usd_per_tenth", "best_n", *BESIDE_COLUMNS,
)  # fmt: skip


def records(found: SpendPage) -> list[dict[str, Any]]:
    """One plain mapping per group for the files; unknown is None."""
    return [dict(zip(NAMES, _record(line), strict=True)) for line in found.lines]


def _record(line: Line) -> tuple[Any, ...]:
    amount, best = line.amount, Measure.of(line.best) if line.best is not None else None
    evidence = (best.value, best.low, best.high, best.basis.value) if best else (None,) * 4
    others = beside_columns(best) if best else dict.fromkeys(BESIDE_COLUMNS)
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
        best.n if best else None,
        *others.values(),
    )
