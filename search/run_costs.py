"""What the searches of a list have cost, and since when each is in its state: a query each for all of them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Count, Max, Sum

from search.models import Proposal, Run, RunEvent
from search.spending import FREE_MODELS, UNPRICED

STATE_KINDS = ("run.started", "run.paused", "run.resumed", "run.stopping", "run.ended")


@dataclass(frozen=True)
class Cost:
    """Paid calls of one search: how many, how many of them without a price, and what the others came to."""

    calls: int = 0
    unpriced: int = 0
    usd: Decimal = Decimal(0)

    @property
    def words(self) -> str:
        """An unknown price is never taken for none."""
        if not self.calls:
            return ""
        if self.unpriced == self.calls:
            return f"unknown ({self.unpriced} call{'' if self.unpriced == 1 else 's'} unpriced)"
        amount = f"${self.usd:.2f}" if self.usd >= Decimal("0.01") or not self.usd else "under $0.01"
        gaps = f" ({self.unpriced} call{'' if self.unpriced == 1 else 's'} unpriced)"
        return f"at least {amount}{gaps}" if self.unpriced else amount


NOTHING = Cost()


def costs_of(run_ids: Collection[int]) -> dict[int, Cost]:
    """Run -> its cost; runs without a paid call are missing."""
    paid = Proposal.objects.filter(node__run__in=run_ids).exclude(model__in=FREE_MODELS).order_by()
    rows = paid.values("node__run").annotate(
        calls=Count("pk"), unpriced=Count("pk", filter=UNPRICED), usd=Sum("price_usd")
    )
    return {row["node__run"]: Cost(row["calls"], row["unpriced"], row["usd"] or Decimal(0)) for row in rows}


def since_of(runs: Collection[Run]) -> dict[int, datetime]:
    """Run -> when it came into its state. Imported ones have no clock of ours and are missing."""
    ids = [run.pk for run in runs if run.origin != Run.Origin.IMPORT]
    events = RunEvent.objects.filter(run__in=ids, kind__in=STATE_KINDS).order_by()
    return dict(events.values_list("run").annotate(Max("created_at")))
