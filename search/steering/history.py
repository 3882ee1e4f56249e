"""What people did to a search, for its exports; and what they had done to an imported one, as history.

History is an event of its own kind: no fold, no replay and no Undo reads it, and who did it is a name, not a user.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from adaexplore_site.core.models import AuditEntry
from search.records.events import NodeCompleted, RecordedAct
from search.records.models import Run, RunEvent

NOT_ACTS = ("run.export", "run.import", "run.archive", "run.unarchive")  # they changed nothing of the search


def acts_document(run: Run) -> list[dict[str, Any]]:
    """Acts on the run as `recorded_acts.acts_read` takes them, oldest first: its history, then its own."""
    history = history_of(run.pk)
    return [act.to_json() for act in (*history, *_own_acts(run, after=len(history)))]


def history_of(run_id: int) -> list[RecordedAct]:
    """What had been done to an imported search where it was recorded, oldest first."""
    rows = RunEvent.objects.filter(run_id=run_id).of(RecordedAct).order_by("seq")
    return [row.said for row in rows if isinstance(row.said, RecordedAct)]


def history_undone(acts: list[RecordedAct]) -> list[bool]:
    """Of each act whether it was taken back there."""
    seqs = {act.after.get("act") for act in acts if act.verb == "steer.undo"} - {None}
    places = {act.after.get("action") for act in acts if act.verb == "run.budget.undo"}
    return [act.after.get("seq") in seqs or place in places for place, act in enumerate(acts, start=1)]


def _own_acts(run: Run, *, after: int) -> list[RecordedAct]:
    rows = AuditEntry.objects.filter(object_type="run", object_id=str(run.pk)).exclude(verb__in=NOT_ACTS)
    actions = list(rows.select_related("actor").order_by("created_at", "pk"))
    places = {action.pk: place for place, action in enumerate(actions, start=after + 1)}
    told = RunEvent.objects.filter(run=run).of(NodeCompleted).order_by("seq").values_list("seq", "created_at")
    seqs, times = [row[0] for row in told], [row[1] for row in told]
    return [
        RecordedAct(
            verb=action.verb,
            who=action.actor.get_username() if action.actor else "",
            at=action.created_at.isoformat(),
            told=bisect_right(seqs, action.after["seq"])
            if "seq" in action.after
            else bisect_right(times, action.created_at),
            before=action.before,
            after=_portable(action.after, places),
        )
        for action in actions
    ]


def _portable(after: dict[str, Any], places: dict[int, int]) -> dict[str, Any]:
    """Without numbers that mean something in this installation only: an act is named by its place among the run's."""
    kept = {name: value for name, value in after.items() if name not in ("run", "action")}
    return kept | ({"action": places[after["action"]]} if after.get("action") in places else {})
