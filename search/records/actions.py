"""The audit of acts on a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adaexplore_site.core.audit import action_on
from adaexplore_site.core.models import AuditEntry
from search.records.models import Run

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


def action_record(
    *,
    verb: str,
    run: Run,
    user: AbstractBaseUser | None,
    key: str | None,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
) -> AuditEntry:
    """Write the audit row of an act on a run, in the caller's transaction."""
    return action_on(verb=verb, on=("run", run.pk), user=user, key=key, before=before, after=after)
