"""The audit of what leaves the house: who took which export of what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adaexplore_site.core.models import AuditEntry
from search.records.kinds import action_record
from search.records.models import Run

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


def export_record(*, run: Run, what: str, user: AbstractBaseUser | None, node: int | None = None) -> AuditEntry:
    """Write that `what` of a run, or of one of its nodes, was exported. A second export is a second row."""
    after = {"what": what} | ({} if node is None else {"node": node})
    return action_record(verb="run.export", run=run, user=user, key=None, after=after)
