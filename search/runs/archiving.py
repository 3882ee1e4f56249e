"""Takes ended searches out of the lists, and back. Nothing else changes: their pages, kernels and failures stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused, action_done
from search.engine.completion import run_locked
from search.records.kinds import action_record
from search.records.models import Run

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

ARCHIVE, UNARCHIVE = "run.archive", "run.unarchive"


def run_archive(*, run: Run, archived: bool, user: AbstractBaseUser | None, key: str | None = None) -> None:
    """The same key, or what is so already, changes nothing. Raises ActionRefused for a search that still runs."""
    verb = ARCHIVE if archived else UNARCHIVE
    with transaction.atomic():
        if action_done(key=key, verb=verb):
            return
        row = run_locked(run.pk)
        if row is None:
            raise ActionRefused("This search no longer exists.")
        if (row.archived_at is not None) == archived:
            return
        if archived and not row.ended:
            raise ActionRefused(f"This search is {row.state}. Stop it first: only what has ended is archived.")
        row.archived_at = timezone.now() if archived else None
        row.save(update_fields=["archived_at"])
        was = {"archived": not archived}
        action_record(verb=verb, run=row, user=user, key=key, before=was, after={"archived": archived})
