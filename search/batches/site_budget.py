"""The budget of all searches together: set it, alert, and pause paid searches once it is exceeded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Q, QuerySet

from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry
from search.batches.adapts import ADAPTS
from search.batches.campaigns import CAMPAIGNS
from search.batches.composers import MODEL
from search.batches.engine import Source
from search.ledger.models import SpendBudget
from search.ledger.spending import Share, budget_now, standing_of
from search.records.models import Run
from search.records.queue import FollowUp
from search.runs.services import run_pause, run_resume

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

SET, ALERT, PAUSE, PAUSE_UNDO = "spend.budget", "spend.alert", "spend.pause", "spend.pause.undo"
OBJECT = ("budget", 1)  # there is one budget, whichever row holds
MOST_ENTRIES = 500  # of the newest, to see what was said and paused already
MOST_USD = Decimal(10_000_000)
FREE = ("builtin", "manual", "recorded")  # proposers without a bill
SOURCES: dict[str, Source] = {"campaigns": CAMPAIGNS, "adapts": ADAPTS}  # by their name in entries of the audit log
NONE: dict[str, Any] = {"day_usd": None, "month_usd": None, "alert_percent": 80, "pauses": False}


def budget_set(
    *,
    day_usd: Decimal | None,
    month_usd: Decimal | None,
    alert_percent: int,
    pauses: bool,
    user: AbstractBaseUser | None,
    key: str | None = None,
) -> SpendBudget | None:
    """The budget from now on; None as an amount is no budget. None when it holds already.

    Raises ActionRefused for an amount or a share that is none.
    """
    for words, amount in (("a day", day_usd), ("a month", month_usd)):
        if amount is not None and not (amount.is_finite() and 0 < amount <= MOST_USD):
            raise ActionRefused(f"The budget of {words} must be above $0 and at most ${MOST_USD:,}; empty is none.")
    if not 1 <= alert_percent <= 100:
        raise ActionRefused(f"The alert must be from 1 to 100 percent, not {alert_percent}.")
    wanted = {"day_usd": day_usd, "month_usd": month_usd, "alert_percent": alert_percent, "pauses": pauses}
    with transaction.atomic():
        if action_done(key=key, verb=SET) is not None:
            return None
        before = budget_fields(budget_now())
        if _plain(wanted) == before:
            return None
        row = SpendBudget.objects.create(**wanted, set_by=user)  # type: ignore[misc]
        action_on(verb=SET, on=OBJECT, user=user, key=key, before=before, after=_plain(wanted))
    return row


def budget_fields(row: SpendBudget | None) -> dict[str, Any]:
    """A budget as the audit keeps it."""
    return _plain(NONE if row is None else {name: getattr(row, name) for name in NONE})


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    cent = Decimal("0.01")
    return {name: str(one.quantize(cent)) if isinstance(one, Decimal) else one for name, one in fields.items()}


def budget_undo(*, before: dict[str, Any], user: AbstractBaseUser | None, key: str | None = None) -> None:
    """Put a budget back as the audit kept it."""
    day, month = (None if before[name] is None else Decimal(before[name]) for name in ("day_usd", "month_usd"))
    again = {"alert_percent": before["alert_percent"], "pauses": before["pauses"]}
    budget_set(day_usd=day, month_usd=month, **again, user=user, key=key)


def budget_watch(*, now: datetime) -> AuditEntry | None:
    """Record an alert when it begins; pause paid searches once the budget is exceeded, where it says so.

    The audit entry of the pause, or None when nothing was paused. Nothing is paused twice for one budget and one day or
    month, so what a person resumes goes on.
    """
    budget = budget_now()
    if budget is None:
        return None
    standing = standing_of(now)
    for share in standing.alarmed:
        _alert(budget, share)
    if standing.passed is None or not standing.pauses:
        return None
    return _pause(budget, standing.passed)


def _alert(budget: SpendBudget, share: Share) -> None:
    """Once for each budget, day or month, and once more when it is passed."""
    mine = {"budget": budget.pk, "period": share.period, "passed": share.passed}
    if any(mine.items() <= after.items() for after in _entries(ALERT)):
        return
    with transaction.atomic():
        SpendBudget.objects.select_for_update().get(pk=budget.pk)  # two beats at once say it once
        if not any(mine.items() <= after.items() for after in _entries(ALERT)):
            action_on(verb=ALERT, on=OBJECT, user=None, key=None, after={**mine, "reason": share.said})


def _entries(verb: str) -> list[dict[str, Any]]:
    entries = AuditEntry.objects.filter(object_type=OBJECT[0], object_id=str(OBJECT[1]), verb=verb).order_by("-pk")
    return list(entries.values_list("after", flat=True)[:MOST_ENTRIES])


def _pause(budget: SpendBudget, share: Share) -> AuditEntry | None:
    with transaction.atomic():
        SpendBudget.objects.select_for_update().get(pk=budget.pk)  # two beats at once: the second one finds all paused
        mine = {"budget": budget.pk, "period": share.period}
        done = _paused_before(mine)
        batches = {name: _paid(source.rows.objects, done, name) for name, source in SOURCES.items()}
        _lock(batches, runs := _paid_runs(done))
        why = f"{share.said} Resume it manually, or raise the budget on the page Spend."
        paused: dict[str, list[int]] = {}
        for name, rows in batches.items():
            paused[name] = _each(rows, partial(SOURCES[name].pause, user=None, why=why))
        within = [pk for name in SOURCES for one in paused[name] for pk in SOURCES[name].last_paused(one)]
        paused["runs"] = _each(runs, lambda run: run_pause(run=run, user=None, why=why))
        if not any(paused.values()):
            return None
        after = {**mine, "usd": str(share.amount.usd), "limit_usd": str(share.limit), **paused, "within": within}
        return action_on(verb=PAUSE, on=OBJECT, user=None, key=None, before={}, after=after)


def _lock(batches: Mapping[str, QuerySet[Any]], runs: QuerySet[Run]) -> None:
    """In the order of every other writer: first batches, then all searches by their ids."""
    theirs = Q(pk__in=list(runs.values_list("pk", flat=True)))
    for name, rows in batches.items():
        theirs |= SOURCES[name].owns(rows.select_for_update().values_list("pk", flat=True)) & Q(state="running")
    ids = list(Run.objects.filter(theirs).values_list("pk", flat=True))
    list(Run.objects.select_for_update().filter(pk__in=ids).order_by("pk").values_list("pk"))


def budget_pause_undo(*, action: AuditEntry, user: AbstractBaseUser | None, key: str | None = None) -> list[FollowUp]:
    """Resume what an exceeded budget had paused, as far as it is still paused; what the caller then sends."""
    follow_ups: list[FollowUp] = []
    with transaction.atomic():
        if action_done(key=key, verb=PAUSE_UNDO) is not None:
            return []
        action_on(verb=PAUSE_UNDO, on=OBJECT, user=user, key=key, after={"undoes": action.pk})
        for name, source in SOURCES.items():
            for batch in _still(source.rows.objects, action, name):
                with suppress(ActionRefused):
                    follow_ups += source.follow_ups(source.resume(batch, user=user))
        for run in _still(Run.objects, action, "runs"):
            with suppress(ActionRefused):
                run_resume(run=run, user=user)
                follow_ups.append(FollowUp("advance", run.pk))
    return follow_ups


def _paused_before(mine: dict[str, Any]) -> dict[str, set[int]]:
    """What was paused already for this budget in this day or month, by kind; `within` batches: their searches."""
    same = [after for after in _entries(PAUSE) if mine.items() <= after.items()]
    return {name: {pk for one in same for pk in one.get(name, ())} for name in (*SOURCES, "runs", "within")}


def _paid(rows: Any, done: dict[str, set[int]], name: str) -> QuerySet[Any]:
    paid = ~Q(proposer__in=FREE)
    if name == "adapts":
        paid |= Q(composer=MODEL)
    return rows.filter(paid, state="running").exclude(pk__in=done[name]).order_by("pk")  # type: ignore[no-any-return]


def _paid_runs(done: dict[str, set[int]]) -> QuerySet[Run]:
    """Without those of a batch that was paused before: a person resumed it, with the searches it starts later."""
    rows = Run.objects.exclude(pk__in=done["within"])
    for name, source in SOURCES.items():
        for search in source.searched_as:
            rows = rows.exclude(**{f"{search}__{source.name}__in": done[name]})
    return _paid(rows, done, "runs")


def _still(rows: Any, action: AuditEntry, name: str) -> QuerySet[Any]:
    return rows.filter(pk__in=action.after[name], state="paused").order_by("pk")  # type: ignore[no-any-return]


def _each(rows: QuerySet[Any], pause: Callable[[Any], object]) -> list[int]:
    """Ids of those that were paused; one that ends at that moment needs no pause."""
    paused = []
    for row in rows:
        with suppress(ActionRefused):
            pause(row)
            paused.append(row.pk)
    return paused
