"""What the searches of a list have cost, and since when each is in its state: a query each for all of them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from django.db.models import Max, Sum

from search.ledger.amounts import Amount
from search.ledger.models import Spending
from search.ledger.sums import MICRO
from search.records.models import Run, RunEvent

STATE_KINDS = ("run.started", "run.paused", "run.resumed", "run.stopping", "run.ended")


NOTHING = Amount()


def costs_of(run_ids: Collection[int]) -> dict[int, Amount]:
    """Run -> its cost; runs without a paid call are missing."""
    rows = Spending.objects.filter(run__in=run_ids, calls__gt=0).order_by().values("run")
    sums = rows.annotate(calls=Sum("calls"), unpriced=Sum("unpriced"), usd=Sum("usd"))
    return {
        row["run"]: Amount(calls=row["calls"], unpriced=row["unpriced"], usd=row["usd"].quantize(MICRO)) for row in sums
    }


def since_of(runs: Collection[Run]) -> dict[int, datetime]:
    """Run -> when it came into its state. Imported ones have no clock of ours and are missing."""
    ids = [run.pk for run in runs if run.origin != Run.Origin.IMPORT]
    events = RunEvent.objects.filter(run__in=ids, kind__in=STATE_KINDS).order_by()
    return dict(events.values_list("run").annotate(Max("created_at")))
