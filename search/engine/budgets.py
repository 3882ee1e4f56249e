"""Budgets of a run: how many steps may begin, and adding to the limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Q

from adaexplore_site.core.audit import ActionRefused, action_done
from memory.adapt.models import AdaptRun
from search.batches.models import CampaignEntry
from search.engine.completion import node_cancel, run_locked
from search.engine.leases import PERSON, QUEUED, RETRY
from search.ledger.books import books, goal_reached, limits_of, stop_of
from search.ledger.limits import MAX_STEPS, WORDS, Amounts, RunLimits, limit_amounts, places, step_hold
from search.records.actions import action_record
from search.records.events import event_write
from search.records.models import Node, Run

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


@dataclass(frozen=True)
class Room:
    """How many steps may begin now, and what each of them reserves."""

    count: int
    hold: Amounts


def run_room(*, run: Run, in_flight: int, now: datetime) -> Room:
    """Room for new steps within concurrency and every limit, in the caller's transaction with the run row locked.

    Near a limit fewer steps go at once instead of passing it. With a goal reached what nobody works on is withdrawn.
    """
    limits = limits_of(run)
    stop = goal_reached(run, limits, now)
    if stop is not None:
        _withdraw(run, stop.text)
        return Room(0, Amounts())
    wanted = max(run.concurrency - in_flight, 0)
    if not wanted:
        return Room(0, Amounts())
    ledger = books(run, limits)
    return Room(places(limits, ledger, wanted).count, step_hold(limits, ledger))


def _withdraw(run: Run, why: str) -> None:
    """Take back steps that wait for a proposer or a person. What is at work, or written already, is told."""
    waiting = Node.objects.filter(run=run, state=Node.State.PROPOSING, lease_owner__in=(QUEUED, RETRY, PERSON))
    for node in waiting.order_by("number"):
        node_cancel(run=run, node=node, why=why)


def hand_hold(run: Run) -> Amounts:
    """What a kernel written by hand reserves: its step, an evaluation and device time; it calls nobody.

    In the caller's transaction with the run row locked. Raises ActionRefused when a limit has no room for it.
    """
    limits = limits_of(run)
    ledger = books(run, limits)
    hold = replace(step_hold(limits, ledger), tokens=0, usd=Decimal(0))
    for name, limit in limit_amounts(limits).items():
        held = getattr(hold, name)
        if held and getattr(ledger.spent, name) + getattr(ledger.reserved, name) + held > limit:
            raise ActionRefused(
                f"The limit of {WORDS[name]} leaves no room to judge one more kernel. Wait for steps in flight to give "
                "back what they hold, or branch a search of its own from a node."
            )
    return hold


def run_budget_add(
    *, run: Run, delta: Mapping[str, Any], user: AbstractBaseUser | None, now: datetime, key: str | None = None
) -> Run:
    """Add to the run's limits: `delta` maps names of RunLimits (`budget.limits.ADDABLE`) to
    what is added. A finished search goes on with what it got. The caller sends `advance(run.pk)`.

    The same key again does nothing. Raises ActionRefused, changing nothing, when the search was stopped, failed or
    imported, when a name or an amount is wrong, or when the wider limits still leave no room to go on.
    """
    with transaction.atomic():
        locked = run_locked(run.pk)
        if locked is None:
            raise ActionRefused("This search no longer exists.")
        if action_done(key=key, verb="run.budget"):
            return locked
        if locked.origin == Run.Origin.IMPORT or locked.state not in _OPEN:
            raise ActionRefused(f"Nothing can be added to this search: it is {_words(locked)}.")
        budget_own(locked)
        before = limits_of(locked)
        after = _extended(before, delta)
        added = {name: _plain(getattr(after, name)) for name in delta}
        was = {name: _plain(getattr(before, name)) for name in delta}
        limits_keep(locked, after)
        locked.save(update_fields=["steps", "limits", "deadline_at"])
        event_write(run=locked, kind="budget.added", payload={"before": was, "after": added}, actor=user)
        action_record(verb="run.budget", run=locked, user=user, key=key, before=was, after=added)
        if locked.state == Run.State.FINISHED:
            _go_on(locked, user, now)
    return locked


_OPEN = (Run.State.RUNNING, Run.State.PAUSED, Run.State.FINISHED)


def _words(run: Run) -> str:
    return "imported" if run.origin == Run.Origin.IMPORT else str(run.state)


def budget_own(run: Run) -> None:
    """Raises ActionRefused when the run's steps are a campaign's, or its limits an adapt run's.

    What is added there would be nobody's.
    """
    entry = CampaignEntry.objects.filter(run=run).first()
    if entry is not None:
        raise ActionRefused(
            f"Campaign {entry.campaign_id} shares the steps of this search out; none can be added here. "
            "Branch a search of its own from a node instead."
        )
    adapt = adapt_sharing(run)
    if adapt is not None:
        raise ActionRefused(
            f"Adapt run {adapt.pk} shares its limits out to this search; none can be added here. "
            "Branch a search of its own from a node instead."
        )


def adapt_sharing(run: Run) -> AdaptRun | None:
    """The adapt run whose limits the search has a share of. None without one, or without such limits."""
    mine = Q(entries__run=run) | Q(entries__control=run)
    return AdaptRun.objects.filter(mine).exclude(limits={}).first()


def _extended(limits: RunLimits, delta: Mapping[str, Any]) -> RunLimits:
    try:
        after = limits.extended(delta)
    except ValueError as error:
        raise ActionRefused(str(error)) from error
    if after.steps > max(MAX_STEPS, limits.steps):
        raise ActionRefused(f"A search has at most {MAX_STEPS} steps; this one has {limits.steps}.")
    return after


def _go_on(run: Run, user: AbstractBaseUser | None, now: datetime) -> None:
    """Open a finished search again. Raises ActionRefused when another limit still stands against a step."""
    stop = stop_of(run, now)
    if stop is not None:
        raise ActionRefused(f"This search would not go on. {stop.text}")
    run.state, run.stop_reason, run.ended_at = Run.State.RUNNING, "", None
    run.save(update_fields=["state", "stop_reason", "ended_at"])
    event_write(run=run, kind="run.resumed", payload={"by": user.get_username() if user else ""}, actor=user)


def limits_keep(run: Run, limits: RunLimits) -> None:
    """Put the limits on the row; the caller saves it."""
    run.steps, run.limits = limits.steps, limits.to_json()
    run.deadline_at = run.created_at + timedelta(seconds=limits.wall_s) if limits.wall_s is not None else None


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float) or value is None else str(value)
