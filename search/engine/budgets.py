"""Budgets of a run: how many steps may begin, and adding to the limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Q
from django.utils.translation import gettext as _

from adaexplore_site.core.audit import ActionRefused
from memory.adapt.models import AdaptRun
from search.batches.models import CampaignEntry
from search.engine.completion import node_cancel
from search.engine.leases import PERSON, QUEUED, RETRY
from search.ledger.books import books, goal_reached, limits_of
from search.ledger.limits import WORDS, Amounts, RunLimits, limit_amounts, places, step_hold
from search.records.models import Node, Run


@dataclass(frozen=True)
class Room:
    """How many steps may begin now, and what each of them reserves."""

    count: int
    hold: Amounts


def run_room(*, run: Run, in_flight: int, now: datetime) -> Room:
    """Room for new steps within concurrency and every limit, in the caller's transaction with the run row locked.

    Near a limit fewer steps go at once instead of passing it. With a goal reached, steps without a worker end.
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
    """Take back steps that wait for a proposer or a person. What is at work, or written already, is completed."""
    waiting = Node.objects.filter(run=run, state=Node.State.PROPOSING, lease_owner__in=(QUEUED, RETRY, PERSON))
    for node in waiting.order_by("number"):
        node_cancel(run=run, node=node, why=why)


def hand_hold(run: Run) -> Amounts:
    """What a kernel written by hand reserves: its step, an evaluation and device time, but no model call.

    In the caller's transaction with the run row locked. Raises ActionRefused when a limit has no room for it.
    """
    limits = limits_of(run)
    ledger = books(run, limits)
    hold = replace(step_hold(limits, ledger), tokens=0, usd=Decimal(0))
    for name, limit in limit_amounts(limits).items():
        held = getattr(hold, name)
        if held and getattr(ledger.spent, name) + getattr(ledger.reserved, name) + held > limit:
            raise ActionRefused(
                _(
                    "The limit of %(limit)s leaves no room to judge one more kernel. Wait for steps in "
                    "flight to release what they reserve, or branch a search of its own from a node."
                )
                % {"limit": WORDS[name]}
            )
    return hold


def budget_own(run: Run) -> None:
    """Raises ActionRefused when the run's steps are a campaign's, or its limits an adapt run's.

    They share their budget out themselves.
    """
    entry = CampaignEntry.objects.filter(run=run).first()
    if entry is not None:
        raise ActionRefused(
            _(
                "Campaign %(campaign_id)s allocates the steps of this search; none can be added "
                "here. Branch a search of its own from a node instead."
            )
            % {"campaign_id": entry.campaign_id}
        )
    adapt = adapt_sharing(run)
    if adapt is not None:
        raise ActionRefused(
            _(
                "Adapt run %(number)s sets the limits of this search; none can be added here. Branch "
                "a search of its own from a node instead."
            )
            % {"number": adapt.pk}
        )


def adapt_sharing(run: Run) -> AdaptRun | None:
    """The adapt run whose limits the search has a share of. None without one, or without such limits."""
    mine = Q(entries__run=run) | Q(entries__control=run)
    return AdaptRun.objects.filter(mine).exclude(limits={}).first()


def limits_keep(run: Run, limits: RunLimits) -> None:
    """Put the limits on the row; the caller saves it."""
    run.steps, run.limits = limits.steps, limits.to_json()
    run.deadline_at = run.created_at + timedelta(seconds=limits.wall_s) if limits.wall_s is not None else None
