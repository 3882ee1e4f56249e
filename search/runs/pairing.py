"""Searches that an adapt run compares in pairs: what a person may not change in one arm only."""

from __future__ import annotations

from django.db.models import Q

from adaexplore_site.core.audit import ActionRefused
from memory.adapt.models import AdaptTask
from search.records.models import Run

# Acts that change what is tried without a mark on the steps that they change. What pins, forced steps, notes and
# kernels by hand lead to is marked, and leaves its pair out of the comparison.
UNMARKED = {
    "steer.params": "parameters",
    "steer.prune": "open nodes",
    "steer.boost": "boosts",
    "run.concurrency": "steps in flight",
}


def pair_check(*, run: Run, verb: str) -> None:
    """Raise ActionRefused where the act would make two arms differ by more than memory, and no step would say so."""
    what = UNMARKED.get(verb)
    task = AdaptTask.objects.filter(Q(run=run) | Q(control=run), control__isnull=False).first() if what else None
    if task is None or task.run_id is None:
        return
    other = task.control_id if run.pk == task.run_id else task.run_id
    raise ActionRefused(
        f"Adapt run {task.adapt_id} compares this search with search {other}: their {what} stay equal, so that only "
        "memory makes them differ. Branch a search of its own from a node instead."
    )
