"""Takes back what was added to the limits of a search, as far as it is not used up."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import transaction

from adaexplore_site.core.audit import ActionRefused, action_done
from adaexplore_site.core.models import AuditEntry
from search.engine.budgets import limits_keep
from search.engine.completion import run_follow, run_locked
from search.ledger.books import books, limits_of
from search.ledger.limits import WORDS, RunLimits, limit_amounts
from search.records.actions import action_record
from search.records.events import event_write
from search.records.follow_ups import Hop
from search.records.models import Run

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

ADDED, TAKEN = "run.budget", "run.budget.undo"


def run_budget_take(
    *, run: Run, action_id: int, user: AbstractBaseUser | None, now: datetime, key: str | None = None
) -> list[Hop]:
    """Undo the act `action_id` that added to the limits of `run`.

    Raises ActionRefused, changing nothing, when it was undone before or when its room is used up or reserved.
    """
    with transaction.atomic():
        locked = run_locked(run.pk)
        if locked is None:
            raise ActionRefused("This search no longer exists.")
        if action_done(key=key, verb=TAKEN):
            return []
        act = AuditEntry.objects.filter(pk=action_id, verb=ADDED, object_type="run", object_id=str(run.pk)).first()
        if act is None or action_id in budgets_undone([run.pk]):
            raise ActionRefused("There is no such addition to undo, or it was undone before.")
        if locked.ended:
            raise ActionRefused(f"This search has already ended ({locked.state}): its limits are history.")
        before = limits_of(locked)
        after = _less(before, act)
        _must_hold(locked, after, now)
        limits_keep(locked, after)
        locked.save(update_fields=["steps", "limits", "deadline_at"])
        names = act.after
        change = {
            "before": {name: _plain(getattr(before, name)) for name in names},
            "after": {name: _plain(getattr(after, name)) for name in names},
        }
        event_write(run=locked, kind="budget.taken", payload=change, actor=user)
        changed = change["after"] | {"action": action_id}
        action_record(verb=TAKEN, run=locked, user=user, key=key, before=change["before"], after=changed)
        return run_follow(run=locked, now=now)


def budgets_undone(run_ids: Collection[int]) -> set[int]:
    """The additions to these runs that were taken back, as numbers of acts."""
    acts = AuditEntry.objects.filter(verb=TAKEN, object_type="run", object_id__in=[str(pk) for pk in run_ids])
    return {after["action"] for after in acts.values_list("after", flat=True)}


def _less(limits: RunLimits, act: AuditEntry) -> RunLimits:
    """These limits without what the act added."""
    first, last = _with(limits, act.before), _with(limits, act.after)
    less = {name: getattr(limits, name) - (getattr(last, name) - getattr(first, name)) for name in act.after}
    try:
        return dataclasses.replace(limits, **less)
    except ValueError as error:
        raise ActionRefused(f"It cannot be taken back: {error}") from error


def _with(limits: RunLimits, values: dict[str, Any]) -> RunLimits:
    others = {name: value for name, value in values.items() if name != "steps"}
    return RunLimits.from_json(limits.to_json() | others, steps=values.get("steps", limits.steps))


def _must_hold(run: Run, limits: RunLimits, now: datetime) -> None:
    ledger = books(run, limits)
    taken = ledger.spent + ledger.reserved
    for name, limit in limit_amounts(limits).items():
        if getattr(taken, name) > limit:
            used, left = (_shown(name, amount) for amount in (getattr(taken, name), limit))
            raise ActionRefused(
                f"{used} {WORDS[name]} are used, or held by steps in flight; only {left} would be allowed without what "
                "was added. Stop the search to end it here."
            )
    if limits.wall_s is not None and (now - run.created_at).total_seconds() > limits.wall_s:
        raise ActionRefused("The time that was added has passed already.")


def _shown(name: str, amount: Any) -> str:
    return f"{amount / 1000 if name == 'device_ms' else amount:.10g}"


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float) or value is None else str(value)
