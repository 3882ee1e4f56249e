"""What people did to a search: the audit rows in words, newest first, with what can be undone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Standing
from adaexplore_site.core.models import AuditEntry
from search.records.kinds import RUN, RunEntries
from search.records.models import Run
from search.steering.history import history_of, history_undone
from search.steering.labels import said_of, told

MOST = 200
NO = Standing()


@dataclass(frozen=True)
class ActivityRow:
    """One action. `entry` is the number of its audit row, None for what was done before an import; then `actor` is a
    name from there."""

    at: datetime
    actor: str
    verb: str
    text: str
    detail: str
    number: int | None
    standing: Standing
    entry: int | None = None

    @property
    def imported(self) -> bool:
        return self.entry is None


def activity_of(run: Run) -> list[ActivityRow]:
    """The newest actions on a search."""
    return (_rows(run.pk) + _history(run))[:MOST]


def activity_kept(run_id: int) -> list[ActivityRow]:
    """The newest actions on a search that was removed: nothing of them can be undone."""
    return _rows(run_id)


def _rows(run_id: int) -> list[ActivityRow]:
    mine = AuditEntry.objects.filter(object_type="run", object_id=str(run_id)).select_related("actor").order_by("-pk")
    entries = list(mine[:MOST])
    loaded = RUN.load(entries)
    return [_row(entry, loaded) for entry in entries]


def _row(entry: AuditEntry, loaded: RunEntries) -> ActivityRow:
    said, row = said_of(entry, loaded), registry.verb(entry.verb)
    return ActivityRow(
        at=entry.created_at,
        actor=entry.actor.get_username() if entry.actor else _without_person(entry),
        verb=entry.verb,
        text=said.text,
        detail=said.detail,
        number=said.number,
        standing=row.standing(entry, loaded) if row is not None else NO,
        entry=entry.pk,
    )


def _without_person(entry: AuditEntry) -> str:
    return "the judge" if entry.after.get("by") == "judge" else "a command"


def _history(run: Run) -> list[ActivityRow]:
    """What was done to an imported search before it came here: nothing of it is a user's, or can be undone."""
    acts = history_of(run.pk)
    rows = []
    for act, undone in zip(acts, history_undone(acts), strict=True):
        said = told(act.verb, act.after, act.before, run.pk)
        rows.append(
            ActivityRow(
                at=datetime.fromisoformat(act.at),
                actor=act.who or "a command",
                verb=act.verb,
                text=said.text,
                detail=said.detail,
                number=said.number,
                standing=Standing(why_not="undone there") if undone else NO,
            )
        )
    return rows[::-1]
