"""Budgets of batches: the limits of an adapt run, and the budget of all searches together.

A new limit of adapt runs is an entry of `LIMITS`: the form, the command, the budget and the page read it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.text import clip, counted
from judge.devices.models import Device
from judge.problems.admission import PREFLIGHT_LIMITS
from judge.problems.preflight import preflight
from judge.templatetags.units import duration
from memory.adapt.models import AdaptRun, AdaptTask
from search.batches.composers import MODEL
from search.batches.engine import SOURCES, each
from search.ledger.books import check_use, price_for, step_tokens
from search.ledger.limits import RunLimits
from search.ledger.models import SpendBudget, Spending
from search.ledger.spending import (
    MICRO,
    NOTHING,
    Amount,
    Share,
    budget_now,
    dollars,
    of_adapt,
    spent,
    spent_by,
    standing_of,
)
from search.proposers import FREE
from search.records.models import Run
from search.records.queue import FollowUp
from search.runs.services import run_pause, run_resume

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser
    from django_stubs_ext import StrOrPromise

NOT_AGAIN = ~Q(kind=Spending.Kind.RECHECK)  # what people judge again is not the adapt run's


class NoPrice(ActionRefused):
    """A run limits its money, and its model has no known price any more."""


@dataclass(frozen=True)
class Spent:
    """What searches, composing and lessons of a model have booked, and the preflights of tasks, which are not booked.

    `unclocked` preflights have no known time.
    """

    booked: Amount
    preflight_s: float = 0.0
    unclocked: int = 0

    @property
    def device_s(self) -> float:
        return self.booked.device_ms / 1000 + self.preflight_s

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types; money with the same digits from every database."""
        booked = {name: getattr(self.booked, name) for name in ("tokens", "calls", "unpriced", "untold")}
        own = {"device_s": self.device_s, "preflight_s": self.preflight_s, "unclocked": self.unclocked}
        return {**booked, **own, "usd": f"{self.booked.usd.normalize():f}"}


@dataclass(frozen=True)
class Limit:
    """One thing that the limits of a whole adapt run bound."""

    name: str  # as it is stored and sent
    label: StrOrPromise  # of its field
    text: str  # in stored sentences
    used: Callable[[Spent, float], Decimal]  # of what was spent, and the seconds since the start
    plain: Callable[[Decimal], Any]  # as a search takes its share
    held: Callable[[Device, Mapping[str, Any]], Any] | None = None  # for one step with these options; None: nothing
    billed: bool = False  # what a call uses


LIMITS = {
    limit.name: limit
    for limit in (
        Limit(
            "tokens",
            _("Tokens"),
            "tokens",
            used=lambda spent, _age_s: Decimal(spent.booked.tokens),
            plain=int,
            held=lambda _device, options: sum(step_tokens(options)),
            billed=True,
        ),
        Limit(
            "usd",
            _("Cost (US$)"),
            "money",
            used=lambda spent, _age_s: spent.booked.usd,
            plain=str,
            held=lambda _device, options: max(price_for(options).usd(*step_tokens(options)), MICRO),
            billed=True,
        ),
        Limit(
            "device_s",
            _("Device time (s)"),
            "device seconds",
            used=lambda spent, _age_s: Decimal(str(spent.device_s)),
            plain=float,
            held=lambda device, _options: device.limits.wall_s,
        ),
        Limit(
            "wall_s",
            _("Time from the start (s)"),
            "wall-clock seconds",
            used=lambda _spent, age_s: Decimal(str(age_s)),
            plain=float,
        ),
    )
}


def limits_of_adapt(
    given: Mapping[str, Any], *, device: Device, proposer: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """The limits as stored. Raises ActionRefused for one that is unknown, out of range or too small for one step."""
    limits = {name: value for name, value in given.items() if value not in (None, "")}
    unknown = sorted(set(limits) - set(LIMITS))
    if unknown:
        text = gettext("An adapt run has no limit %(name)r. Choose from: %(names)s.")
        raise ActionRefused(text % {"name": unknown[0], "names": ", ".join(LIMITS)})
    check_use(proposer, limits)
    held = {f"step_{name}": amount for name, amount in _held_for_step(limits, device, options).items()}
    try:
        plain = RunLimits.from_json({**limits, **held}, steps=1).to_json()
    except ValueError as error:
        raise ActionRefused(str(error)) from error
    longest_s = PREFLIGHT_LIMITS.wall_s
    if "device_s" in limits and plain["device_s"] < longest_s:
        text = gettext(
            "The limit of device seconds (%(limit)g) is below what is held for the preflight of one task (%(held)g). "
            "Raise the limit or leave it out."
        )
        raise ActionRefused(text % {"limit": plain["device_s"], "held": longest_s})
    return {name: plain[name] for name in limits}


def _held_for_step(limits: Mapping[str, Any], device: Device, options: Mapping[str, Any]) -> dict[str, Any]:
    """What a search holds for one step, by name of the limit."""
    return {name: limit.held(device, options) for name, limit in LIMITS.items() if name in limits and limit.held}


def _held_by(adapt: AdaptRun) -> dict[str, Decimal]:
    """The same of an adapt run. Raises NoPrice with what to do."""
    try:
        held = _held_for_step(adapt.limits, adapt.device, adapt.proposer_options)
    except ActionRefused as error:
        model = str(adapt.proposer_options.get("model") or "its model")
        raise NoPrice(
            f"Its money is limited, and {clip(model, 60)} has no known price any more. Set a price on the page Spend, "
            "or correct the file of LLM_PRICES, then resume."
        ) from error
    return {name: Decimal(str(value)) for name, value in held.items()}


def spent_of(adapt: AdaptRun) -> Spent:
    """All that was used so far: what its searches and its own calls have booked, and the preflights of its tasks."""
    tasks = adapt.entries.exclude(recipe={}).values_list("recipe", "state")
    preflights = [preflights_of(recipe, state) for recipe, state in tasks]
    seconds, unclocked = sum(one for one, _ in preflights), sum(one for _, one in preflights)
    return Spent(spent(of_adapt(adapt.pk) & NOT_AGAIN), seconds, unclocked)


def preflights_of(recipe: Mapping[str, Any], state: str) -> tuple[float, int]:
    """Seconds of a task's preflights here, and how many have no known time: their process died, or none was kept."""
    kept = recipe.get("preflight")
    if kept is None:
        return 0.0, int(state == AdaptTask.State.STARTED or "graph" in recipe)
    running = state == AdaptTask.State.WAITING and "graph" not in recipe and kept["begun"] > kept["timed"]
    return kept["s"], kept["begun"] - kept["timed"] - int(running)


def share_of(adapt: AdaptRun, *, searches: int, now: datetime, writing: bool = True) -> dict[str, Any] | None:
    """Limits of each of the next `searches`, as run_start takes them; None when the budget has no room for them.

    What open searches hold is held, and what tasks being written do, but for `writing` False; an ended search counts
    with what it has used.
    """
    if not adapt.limits:
        return {}
    left, held = room_of(adapt, now, writing=writing), _held_by(adapt)
    share: dict[str, Any] = {}
    for name, amount in left.items():
        part = amount if name == "wall_s" else amount / searches
        if part < held.get(name, 1):
            return None
        share[name] = LIMITS[name].plain(part)
    return share


def may_ask(adapt: AdaptRun, now: datetime) -> bool:
    """Whether the limits have room for one more call of a model."""
    left, held = room_of(adapt, now), _held_by(adapt)
    return all(left[name] >= held[name] for name in left if LIMITS[name].billed)


def may_admit(adapt: AdaptRun, now: datetime, *, writing: bool = True) -> bool:
    """Whether the limits have room for one more preflight and a step of each search that it is for."""
    if "device_s" not in adapt.limits:
        return True
    searches = (2 if adapt.control_steps else 1) * adapt.device.limits.wall_s
    needed = Decimal(str(PREFLIGHT_LIMITS.wall_s + searches))
    return room_of(adapt, now, writing=writing)["device_s"] >= needed


def room_of(adapt: AdaptRun, now: datetime, *, writing: bool = True) -> dict[str, Decimal]:
    """What is neither used nor held, by name of the limit; below zero where calls cost more than was held for them.

    Held is what open searches may use yet, and (`writing`) a call for each task that a model is asked for and the
    longest time of each preflight that was asked for.
    """
    now_spent, age_s = spent_of(adapt), (now - adapt.created_at).total_seconds()
    left = {name: Decimal(str(limit)) - LIMITS[name].used(now_spent, age_s) for name, limit in adapt.limits.items()}
    searches = Run.objects.filter(Q(adapt_task__adapt=adapt) | Q(adapt_control__adapt=adapt))
    open_searches = list(searches.exclude(state__in=Run.ENDED))
    booked = spent_by("run", where=Q(run__in=open_searches) & NOT_AGAIN)
    for run in open_searches:
        own = Spent(booked.get(run.pk, NOTHING))
        for name in left.keys() & run.limits.keys() - {"wall_s"}:
            left[name] -= max(Decimal(str(run.limits[name])) - LIMITS[name].used(own, 0.0), Decimal(0))
    if writing and adapt.composer == MODEL:
        calls = adapt.entries.filter(state=AdaptTask.State.WAITING, problem=None).count()
        held = _held_by(adapt)
        for name in (name for name in left if LIMITS[name].billed):
            left[name] -= calls * held[name]
    if writing and "device_s" in left:
        left["device_s"] -= _admitting(adapt, now) * Decimal(str(PREFLIGHT_LIMITS.wall_s))
    return left


def _admitting(adapt: AdaptRun, now: datetime) -> int:
    """Preflights that were asked for and are not decided."""
    asked = adapt.entries.filter(state=AdaptTask.State.WAITING, asked_at__isnull=False, recipe__graph__isnull=True)
    tasks = asked.filter(problem__isnull=False).select_related("problem")
    return sum(not preflight(task.problem, adapt.device, now=now).decided for task in tasks if task.problem)


def used_facts(adapt: AdaptRun) -> list[tuple[str, str]]:
    """Device time and cost for the page: what was used, of which limit, and what is not known of it."""
    found, most = spent_of(adapt), adapt.limits
    booked = found.booked
    device = [_used(duration(found.device_s), most.get("device_s") and duration(most["device_s"]), found.unclocked)]
    if found.preflight_s:
        device.append(gettext("%(time)s of it for preflights") % {"time": duration(found.preflight_s)})
    cost = [
        _used(dollars(booked.usd), most.get("usd") and f"${most['usd']}", booked.unpriced),
        _used(
            ngettext("%(n)d token", "%(n)d tokens", booked.tokens) % {"n": booked.tokens},
            most.get("tokens"),
            booked.untold,
        ),
    ]
    gaps = [
        (
            found.unclocked,
            ngettext("%(n)d preflight of unknown time", "%(n)d preflights of unknown time", found.unclocked),
        ),
        (booked.unpriced, ngettext("%(n)d call unpriced", "%(n)d calls unpriced", booked.unpriced)),
        (
            booked.untold,
            ngettext("%(n)d call without a token count", "%(n)d calls without a token count", booked.untold),
        ),
    ]
    unknown = [f" ({text % {'n': number}})" if number else "" for number, text in gaps]
    return [
        (gettext("Device time"), ", ".join(device) + unknown[0]),
        (gettext("Cost"), ", ".join(cost) + "".join(unknown[1:]) if booked.calls else gettext("no model calls")),
    ]


def _used(amount: str, most: Any, unknown: int) -> str:
    """The amount, of its limit where there is one; "at least" where some of it is not known."""
    facts = {"amount": amount, "most": most}
    if most:
        text = gettext("at least %(amount)s of %(most)s") if unknown else gettext("%(amount)s of %(most)s")
    else:
        text = gettext("at least %(amount)s") if unknown else "%(amount)s"
    return text % facts


def spent_line(spent: dict[str, Any]) -> str:
    """Sums say "at least" where part of them is not known, and what that is."""
    seconds, tokens = f"{spent['device_s']:.0f} s of the device", f"{spent['tokens']} tokens"
    usd, least = f"${spent['usd']}", "at least "
    if spent["preflight_s"]:
        seconds += f", {spent['preflight_s']:.0f} s of it for preflights"
    if spent["unclocked"]:
        seconds = f"{least}{seconds} ({spent['unclocked']} preflights of unknown time)"
    if spent["untold"]:
        tokens = f"{least}{tokens} ({counted(spent['untold'], 'call')} without a token count)"
    if spent["unpriced"]:
        usd = f"{least}{usd} ({counted(spent['unpriced'], 'call')} unpriced)"
    return f"{seconds}, {tokens}, {usd}"


SET, ALERT, PAUSE, PAUSE_UNDO = "spend.budget", "spend.alert", "spend.pause", "spend.pause.undo"
OBJECT = ("budget", 1)  # there is one budget, whichever row holds
MOST_ENTRIES = 500  # of the newest, to see what was said and paused already
MOST_USD = Decimal(10_000_000)
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
    refusals = (
        (gettext("The budget of a day must be above $0 and at most $%(most)s; empty is none."), day_usd),
        (gettext("The budget of a month must be above $0 and at most $%(most)s; empty is none."), month_usd),
    )
    for text, amount in refusals:
        if amount is not None and not (amount.is_finite() and 0 < amount <= MOST_USD):
            raise ActionRefused(text % {"most": f"{MOST_USD:,}"})
    if not 1 <= alert_percent <= 100:
        raise ActionRefused(gettext("The alert must be from 1 to 100 percent, not %(n)d.") % {"n": alert_percent})
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
            paused[name] = each(rows, partial(SOURCES[name].pause, user=None, why=why))
        within = [pk for name in SOURCES for one in paused[name] for pk in SOURCES[name].last_paused(one)]
        paused["runs"] = each(runs, lambda run: run_pause(run=run, user=None, why=why))
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
