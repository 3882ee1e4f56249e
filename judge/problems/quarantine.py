"""Problems that break their bounds again and again: nothing of them is run until a person releases them. Without it one
problem would take its devices from all others, a time limit at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import F
from django.dispatch import Signal
from django.utils import timezone

from adaexplore_site.core.audit import action_on
from adaexplore_site.core.text import clip, storable_text
from judge.evaluations.services import UNCLEAR
from judge.problems.models import Problem

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

QUARANTINE, RELEASE = "problem.quarantine", "problem.release"
REASON_CHARS = 300
# Points: three times in a row is too much, and so is every fourth time; a machine that is slow now and then is not.
STRIKE, GOOD, MOST = 4, 1, 12
TIMEOUT = "problem.timeout"
BREAKING = frozenset(
    {
        TIMEOUT,
        "problem.forges",
        "problem.breaks_off",
        "problem.files",
        "problem.processes",
        "problem.keeps_gpu",
        UNCLEAR,
    }
)


quarantined = Signal()  # in the transaction that quarantines: `row`, the locked Problem, and `user`, None for the judge


def problem_locked(problem_id: int) -> Problem:
    """The row without its large columns, locked until the caller's transaction ends."""
    rows = Problem.objects.select_for_update(no_key=True).defer("source", "admission")
    return rows.get(pk=problem_id)


def strikes_count(problem: Problem, *, reason: str, message: str) -> bool:
    """Take note of how a preflight or an evaluation ended: `reason` is the problem's own, or empty where it did what it
    should. True when it is quarantined by that."""
    mine = Problem.objects.filter(pk=problem.pk)
    if reason not in BREAKING:
        if not reason:
            mine.filter(strikes__gt=0).update(strikes=F("strikes") - GOOD)
        return False
    mine.update(strikes=F("strikes") + STRIKE)
    if not mine.filter(strikes__gte=MOST, quarantined_at=None).exists():
        return False
    said = f"It breaks its bounds again and again. The last time: {message}"
    with transaction.atomic():
        return problem_quarantine(problem_locked(problem.pk), reason=said, user=None)


def problem_quarantine(row: Problem, *, reason: str, user: AbstractBaseUser | None, key: str | None = None) -> bool:
    """Quarantine a locked row; without a user it is the judge's decision. False when it was quarantined before."""
    if row.quarantined:
        return False
    row.quarantined_at, row.quarantine_reason = timezone.now(), clip(storable_text(reason), REASON_CHARS)
    row.save(update_fields=["quarantined_at", "quarantine_reason"])
    after = {"quarantined": True, "reason": row.quarantine_reason}
    before = {"quarantined": False}
    action_on(verb=QUARANTINE, on=("problem", row.pk), user=user, key=key, before=before, after=after)
    quarantined.send(sender=Problem, row=row, user=user)
    return True


def problem_release(row: Problem, *, user: AbstractBaseUser | None, key: str | None = None) -> bool:
    """Let a locked row be judged again, without strikes. False when it was not quarantined."""
    if not row.quarantined:
        return False
    before = {"quarantined": True, "reason": row.quarantine_reason}
    row.quarantined_at, row.quarantine_reason, row.strikes = None, "", 0
    row.save(update_fields=["quarantined_at", "quarantine_reason", "strikes"])
    after = {"quarantined": False, "reason": ""}
    action_on(verb=RELEASE, on=("problem", row.pk), user=user, key=key, before=before, after=after)
    return True
