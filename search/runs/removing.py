"""Takes an imported search out again, whole. Its acts stay in the audit, and importing its file brings it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adaexplore_site.core.audit import ActionRefused, action_done
from judge.devices.models import Device
from judge.evaluations.models import PROTOCOL_ELSEWHERE, Evaluation
from memory.rules.services import rules_locked
from search.engine.completion import run_locked
from search.records.actions import action_record
from search.records.models import Run
from search.runs.removal import VERB, removal_of

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


def run_remove(*, run: Run, user: AbstractBaseUser | None, key: str | None = None) -> None:
    """Remove an imported search with its nodes, verdicts, events and failures; its problem stays.

    The same key again does nothing. Raises ActionRefused, nothing changed, when it was made here or something else
    depends on it.
    """
    with rules_locked():  # no rule may take one of its failures as evidence meanwhile
        locked = run_locked(run.pk)
        if action_done(key=key, verb=VERB):
            return
        if locked is None:
            raise ActionRefused("This search no longer exists.")
        found = removal_of(locked)
        if found.why_not:
            raise ActionRefused(" ".join(found.why_not))
        counts = {name: getattr(found, name) for name in ("nodes", "verdicts", "failures", "sightings")}
        told = {"title": locked.title or locked.problem.title, "problem": locked.problem.slug, **counts}
        file = str(locked.imported.get("file", ""))
        action_record(verb=VERB, run=locked, user=user, key=key, before={**told, "file": file})
        _delete(locked)


def _delete(run: Run) -> None:
    """The run with all that hangs on it, its verdicts, and its device when no other search named it."""
    problem_id = run.problem_id
    run.delete()
    device = Device.objects.select_for_update().get(pk=run.device_id)  # who imports onto it has it locked, too
    verdicts = Evaluation.objects.filter(problem=problem_id, device=device, protocol=PROTOCOL_ELSEWHERE)
    verdicts.filter(nodes=None).delete()
    named = Evaluation.objects.filter(device=device).exists() or Run.objects.filter(device=device).exists()
    if device.kind == Device.Kind.EXTERNAL and not named:
        device.delete()
