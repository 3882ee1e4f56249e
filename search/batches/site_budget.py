"""Set the budget of all searches together; pause what pays once it is passed, where that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Q, QuerySet

from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry
from memory.adapt.models import AdaptRun
from search.batches import adapt_runs, campaigns
from search.batches.adapt_seeds import MODEL
from search.batches.many_runs import last_pause
from search.batches.models import Campaign
from search.ledger.models import SpendBudget
from search.ledger.spending import Share, budget_now, standing_of
from search.records.follow_ups import Hop
from search.records.models import Run
from search.runs.services import run_pause, run_resume

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

SET, ALERT, PAUSE, PAUSE_UNDO = "spend.budget", "spend.alert", "spend.pause", "spend.pause.undo"
OBJECT = ("budget", 1)  # there is one budget, whichever row holds
MOST_ACTS = 500  # of the newest, to see what was said and paused already
MOST_USD = Decimal(10_000_000)
FREE = ("builtin", "manual", "recorded")  # proposers that nobody bills for
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
        if _told(wanted) == before:
            return None
        row = SpendBudget.objects.create(**wanted, set_by=user)  # type: ignore[misc]
        action_on(verb=SET, on=OBJECT, user=user, key=key, before=before, after=_told(wanted))
    return row


def budget_fields(row: SpendBudget | None) -> dict[str, Any]:
    """A budget as the audit keeps it."""
    return _told(NONE if row is None else {name: getattr(row, name) for name in NONE})


def _told(fields: dict[str, Any]) -> dict[str, Any]:
    cent = Decimal("0.01")
    return {name: str(one.quantize(cent)) if isinstance(one, Decimal) else one for name, one in fields.items()}


def budget_undo(*, before: dict[str, Any], user: AbstractBaseUser | None, key: str | None = None) -> None:
    """Put a budget back as the audit kept it."""
    day, month = (None if before[name] is None else Decimal(before[name]) for name in ("day_usd", "month_usd"))
    again = {"alert_percent": before["alert_percent"], "pauses": before["pauses"]}
    budget_set(day_usd=day, month_usd=month, **again, user=user, key=key)


def budget_watch(*, now: datetime) -> AuditEntry | None:
    """Note an alert when it begins; pause what pays once the budget is passed, where it asks for that: the act of the
    pause, or None when nothing was paused.

    What a person resumes after that goes on: nothing is paused twice for one budget and one day or month.
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
    if any(mine.items() <= after.items() for after in _acts(ALERT)):
        return
    with transaction.atomic():
        SpendBudget.objects.select_for_update().get(pk=budget.pk)  # two beats at once say it once
        if not any(mine.items() <= after.items() for after in _acts(ALERT)):
            action_on(verb=ALERT, on=OBJECT, user=None, key=None, after={**mine, "reason": share.said})


def _acts(verb: str) -> list[dict[str, Any]]:
    acts = AuditEntry.objects.filter(object_type=OBJECT[0], object_id=str(OBJECT[1]), verb=verb).order_by("-pk")
    return list(acts.values_list("after", flat=True)[:MOST_ACTS])


def _pause(budget: SpendBudget, share: Share) -> AuditEntry | None:
    with transaction.atomic():
        SpendBudget.objects.select_for_update().get(pk=budget.pk)  # two beats at once: the second one finds all paused
        mine = {"budget": budget.pk, "period": share.period}
        done = _paused_before(mine)
        many, adapts = _paying(Campaign.objects, done, "campaigns"), _paying(AdaptRun.objects, done, "adapts")
        _lock(many, adapts, runs := _paying_runs(done))
        why = f"{share.said} Resume it by hand, or raise the budget on the page Spend."
        paused = {
            "campaigns": _each(many, _campaign),
            "adapts": _each(adapts, lambda one: _adapt(one, why)),
        }
        within = [pk for kind in ("campaign", "adapt") for one in paused[f"{kind}s"] for pk in last_pause(kind, one)]
        paused["runs"] = _each(runs, lambda run: _run(run, why))
        if not any(paused.values()):
            return None
        after = {**mine, "usd": str(share.amount.usd), "limit_usd": str(share.limit), **paused, "within": within}
        return action_on(verb=PAUSE, on=OBJECT, user=None, key=None, before={}, after=after)


def _lock(campaigns: QuerySet[Any], adapts: QuerySet[Any], runs: QuerySet[Any]) -> None:
    """As everybody does: first who holds many searches, then all searches by their ids."""
    held = [list(rows.select_for_update().values_list("pk", flat=True)) for rows in (campaigns, adapts)]
    theirs = Q(campaign_entry__campaign__in=held[0]) | Q(adapt_task__adapt__in=held[1])
    theirs |= Q(adapt_control__adapt__in=held[1])
    ids = set(Run.objects.filter(theirs, state="running").values_list("pk", flat=True))
    ids |= set(runs.values_list("pk", flat=True))
    list(Run.objects.select_for_update().filter(pk__in=ids).order_by("pk").values_list("pk"))


def budget_pause_undo(*, action: AuditEntry, user: AbstractBaseUser | None, key: str | None = None) -> list[Hop]:
    """Resume what a passed budget had paused, as far as it is paused still; what the caller then sends."""
    hops: list[Hop] = []
    with transaction.atomic():
        if action_done(key=key, verb=PAUSE_UNDO) is not None:
            return []
        action_on(verb=PAUSE_UNDO, on=OBJECT, user=user, key=key, after={"undoes": action.pk})
        for campaign in _still(Campaign.objects, action, "campaigns"):
            with suppress(ActionRefused):
                hops += campaigns.campaign_hops(campaigns.campaign_resume(campaign=campaign, user=user))
        for adapt in _still(AdaptRun.objects, action, "adapts"):
            with suppress(ActionRefused):
                hops += adapt_runs.adapt_hops(adapt_runs.adapt_resume(adapt=adapt, user=user))
        for run in _still(Run.objects, action, "runs"):
            with suppress(ActionRefused):
                run_resume(run=run, user=user)
                hops.append(Hop("advance", run.pk))
    return hops


def _paused_before(mine: dict[str, Any]) -> dict[str, set[int]]:
    """What was paused already for this budget in this day or month, by kind; `within` campaigns and adapt runs."""
    same = [after for after in _acts(PAUSE) if mine.items() <= after.items()]
    names = ("campaigns", "adapts", "runs", "within")
    return {name: {pk for one in same for pk in one.get(name, ())} for name in names}


def _paying(rows: Any, done: dict[str, set[int]], name: str) -> QuerySet[Any]:
    pays = ~Q(proposer__in=FREE)
    if name == "adapts":
        pays |= Q(composer=MODEL)
    return rows.filter(pays, state="running").exclude(pk__in=done[name]).order_by("pk")  # type: ignore[no-any-return]


def _paying_runs(done: dict[str, set[int]]) -> QuerySet[Run]:
    """Not those of a campaign or adapt run that was paused before: who resumed it wants its searches, new ones too."""
    wanted = Run.objects.exclude(pk__in=done["within"]).exclude(campaign_entry__campaign__in=done["campaigns"])
    wanted = wanted.exclude(adapt_task__adapt__in=done["adapts"]).exclude(adapt_control__adapt__in=done["adapts"])
    return _paying(wanted, done, "runs")


def _still(rows: Any, action: AuditEntry, name: str) -> QuerySet[Any]:
    return rows.filter(pk__in=action.after[name], state="paused").order_by("pk")  # type: ignore[no-any-return]


def _each(rows: QuerySet[Any], pause: Callable[[Any], object]) -> list[int]:
    """What ends in that moment needs no pause."""
    paused = []
    for row in rows:
        with suppress(ActionRefused):
            pause(row)
            paused.append(row.pk)
    return paused


def _campaign(campaign: Campaign) -> None:
    campaigns.campaign_pause(campaign=campaign, user=None)


def _adapt(adapt: AdaptRun, why: str) -> None:
    adapt_runs.adapt_pause(adapt=adapt, user=None, why=why)


def _run(run: Run, why: str) -> None:
    run_pause(run=run, user=None, why=why)
