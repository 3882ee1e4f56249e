"""Acts on all searches of something that holds many, such as a campaign. In the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from search.records.models import Run
from search.records.queue import FollowUp
from search.runs.services import run_pause, run_resume, run_stop

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser
    from django.db.models import QuerySet


def runs_pause(*, runs: QuerySet[Run], user: AbstractBaseUser | None) -> list[int]:
    """Pause those that run; ids."""
    return _each(runs.filter(state=Run.State.RUNNING), lambda run: run_pause(run=run, user=user))


def runs_resume(*, runs: QuerySet[Run], paused_by: tuple[str, int], user: AbstractBaseUser | None) -> list[int]:
    """Resume those that the last pause of (kind of row, its id) had paused; others stay paused. Ids."""
    mine = set(last_pause(*paused_by))
    return _each(
        runs.filter(state=Run.State.PAUSED), lambda run: run_resume(run=run, user=user) if run.pk in mine else None
    )


def runs_stop(*, runs: QuerySet[Run], user: AbstractBaseUser | None) -> list[int]:
    """Stop all that are open; ids."""
    return _each(runs.exclude(state__in=Run.ENDED), lambda run: run_stop(run=run, user=user))


def runs_hops(runs: QuerySet[Run]) -> list[FollowUp]:
    """What to send so that those that run go on at once."""
    running = runs.filter(state=Run.State.RUNNING).order_by("pk")
    return [FollowUp("advance", pk) for pk in running.values_list("pk", flat=True)]


def _each(runs: QuerySet[Run], act: Callable[[Run], Run | None]) -> list[int]:
    """A search that ends meanwhile is no reason to stop."""
    done = []
    for run in runs.order_by("pk"):
        try:
            if act(run) is not None:
                done.append(run.pk)
        except ActionRefused:
            continue
    return done


def last_pause(kind: str, pk: int) -> list[int]:
    """The searches that the last pause of something that holds many had paused. Ids."""
    acts = AuditEntry.objects.filter(object_type=kind, object_id=str(pk), verb=f"{kind}.pause")
    last = acts.order_by("-id").first()
    return list(last.after.get("runs", ())) if last else []
