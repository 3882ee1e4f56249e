"""How spending stands against the budget of the day and of the month: what is known, alarmed and passed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from search.ledger.amounts import Amount, dollars
from search.ledger.models import SpendBudget
from search.ledger.sums import calls_of_day_and_month


@dataclass(frozen=True)
class Share:
    """One budget: `period` is its day or month as text, `limit` None without one. Only known money counts."""

    words: str  # today, this month
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
        return f"{'at least ' if self.amount.unpriced else ''}{self.amount.usd / self.limit:.0%}".replace("%", " %")

    @property
    def said(self) -> str:
        """The alert as a sentence: of `passed` and `alarmed` whichever holds."""
        if self.limit is None:
            return ""
        now = f"{self.amount.known or 'nothing'} of {dollars(self.limit)} {self.words}"
        if self.passed:
            return f"The budget is exceeded: {now}."
        return f"{self.used[:1].upper()}{self.used[1:]} of the budget is spent: {now}."


@dataclass(frozen=True)
class Standing:
    """Both budgets. `budget` is the row that holds, None before anybody set one."""

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
    budget = budget_now()
    percent = budget.alert_percent if budget else 100
    day_usd, month_usd = (budget.day_usd, budget.month_usd) if budget else (None, None)
    of_day, of_month = calls_of_day_and_month(today)
    day = Share("today", today.isoformat(), of_day, day_usd, percent)
    return Standing(budget, day, Share("this month", f"{today:%Y-%m}", of_month, month_usd, percent))
