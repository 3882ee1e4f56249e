"""What an evaluation says of its problem. A quarantine lets the searches on it wait; they go on once it is released."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.dispatch import receiver
from django.utils import timezone

from judge.evaluations.models import Evaluation
from judge.evaluations.services import UNCLEAR
from judge.problems import quarantine
from judge.problems.models import Problem
from judge.values import Verdict
from search.records.events import ProblemQuarantined, ProblemReleased
from search.records.log import event_write
from search.records.models import Node, Run

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


def problem_judged(*, evaluation: Evaluation) -> None:
    """Count how often a problem broke its bounds; one that does so again and again is quarantined."""
    unclear, refused = evaluation.reason == UNCLEAR, evaluation.verdict == Verdict.REFUSED_PROBLEM
    if evaluation.verdict == Verdict.LOST and not unclear:
        return  # says nothing of it
    reason = evaluation.reason if refused or unclear else ""
    quarantine.strikes_count(evaluation.problem, reason=reason, message=evaluation.message)


def problem_unclear(*, problem: Problem, message: str) -> None:
    """Count a fault of the judge that the problem brought about on another machine, where no evaluation is stored."""
    quarantine.strikes_count(problem, reason=UNCLEAR, message=message)


def problem_quarantine(*, problem: Problem, reason: str, user: AbstractBaseUser | None, key: str | None = None) -> bool:
    """Run nothing of a problem until it is released; the logs of its searches say why they wait. False when it was
    quarantined before."""
    with transaction.atomic():
        row = quarantine.problem_locked(problem.pk)
        return quarantine.problem_quarantine(row, reason=reason, user=user, key=key)


def problem_release(*, problem: Problem, user: AbstractBaseUser | None, key: str | None = None) -> bool:
    """Let it be judged again: what waited is sent with the next reap, with all its attempts. False when it was not
    quarantined."""
    with transaction.atomic():
        row = quarantine.problem_locked(problem.pk)
        done = quarantine.problem_release(row, user=user, key=key)
        if done:
            waiting = Node.objects.filter(run__problem=row, state=Node.State.JUDGING, lease_owner__in=Node.UNCLAIMED)
            waiting.release(now=timezone.now(), attempts=0)
            _searches_tell(row, ProblemReleased, user)
    return done


@receiver(quarantine.quarantined)
def _quarantine_told(sender: type[Problem], *, row: Problem, user: AbstractBaseUser | None, **signal: object) -> None:
    """Whoever quarantined it: an evaluation, a preflight or a person."""
    _searches_tell(row, ProblemQuarantined, user)


def _searches_tell(
    row: Problem, kind: type[ProblemQuarantined | ProblemReleased], user: AbstractBaseUser | None = None
) -> None:
    """Write an event into the log of every open search on the problem."""
    for run in Run.objects.filter(problem=row).exclude(state__in=Run.ENDED).order_by("pk"):
        event_write(run=run, event=kind(reason=row.quarantine_reason), actor=user)
