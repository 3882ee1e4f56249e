"""What people did to a search: as sentences with what can be undone, for exports, and as an imported search tells it.

What was done before an import is an event of its own kind: no fold, no replay and no Undo reads it, and who did it is a
name, not a user. What a file says of it is checked and trusted in nothing.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Standing
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.text import storable, storable_text
from search.records.events import NodeCompleted, RecordedAct
from search.records.kinds import RUN, RunEntries
from search.records.models import Run, RunEvent

MAX_ACTS = 20_000
ACT_BYTES = 4096  # of one act as JSON: twice what an event may hold
DEEPEST = 20  # lists and objects inside each other
LATEST = 9998  # year: every zone can tell the time of an act
WHO_CHARS = 150
_VERB = re.compile(r"[a-z]{1,20}(\.[a-z]{1,20}){1,2}")
_WHOLE = frozenset({"number", "parent", "quota", "steps", "total", "act", "action", "seq", "count"})
_NODES = ("number", "parent")
_TEXTS = frozenset({"kind", "text", "verb", "what", "words"})
NOT_ACTS = ("run.export", "run.import", "run.archive", "run.unarchive")  # they changed nothing of the search
MOST = 200
NO = Standing()


@dataclass(frozen=True)
class Said:
    """An action as a sentence. `text` stands after "Node 7" where `number` names the node, else by itself."""

    text: str
    detail: str
    number: int | None


def said_of(entry: AuditEntry, loaded: RunEntries | None = None) -> Said:
    """What was done to a search, by an entry of the audit log or by what an event or a recorded search tells of one."""
    row, number = registry.verb(entry.verb), entry.after.get("number")
    if row is None or row.kind is not RUN:  # a recorded search may name anything
        return Said(entry.verb.replace(".", " "), "", number)
    if entry.verb == "run.branch" and "run" not in entry.after:  # recorded elsewhere: its number there means nothing
        return Said(_("was branched into another search"), "", number)
    loaded = loaded or RunEntries([entry], {})
    text, detail, of_node = row.describe(entry, loaded), row.detail(entry, loaded) or "", f"Node {number} "
    if number is None or not text.startswith(of_node):
        return Said(text, detail, None)
    return Said(text.removeprefix(of_node), detail, number)


def said_of_event(
    verb: str, after: Mapping[str, Any], before: Mapping[str, Any] | None = None, run_id: int = 0
) -> Said:
    """The same of an event or a recorded action, which no audit log here has."""
    of = {"object_type": "run", "object_id": str(run_id)}
    return said_of(AuditEntry(verb=verb, after=dict(after), before=dict(before or {}), **of))


def acts_read(document: Any, numbers: Mapping[int, int]) -> tuple[RecordedAct, ...]:
    """From our own export, oldest first; `numbers` gives the node number of an id in the file. Raises ValueError."""
    if document is None:
        return ()
    if not isinstance(document, list) or len(document) > MAX_ACTS:
        raise ValueError(f"a search lists up to {MAX_ACTS} acts of people")
    acts = tuple(_act(place, act, numbers) for place, act in enumerate(document, start=1))
    return tuple(sorted(acts, key=lambda act: act.told))  # stable: as listed


def _act(place: int, act: Any, numbers: Mapping[int, int]) -> RecordedAct:
    if not isinstance(act, dict) or _deep(act) or len(json.dumps(act)) > ACT_BYTES:
        raise ValueError(f"act {place} is no object of up to {ACT_BYTES} bytes, {DEEPEST} deep")
    verb, told = act.get("verb"), act.get("told")
    if not isinstance(verb, str) or len(verb) > 40 or not _VERB.fullmatch(verb):
        raise ValueError(f"act {place} has no verb such as steer.pin")
    if not isinstance(told, int) or not _whole(told) or told < 0:
        raise ValueError(f"act {place} does not say how many nodes had been told")
    before, after = (_payload(place, act.get(name) or {}) for name in ("before", "after"))
    for name in _NODES:
        if name in after:
            after[name] = numbers.get(after[name])  # in a file with gaps, nodes are counted anew
    known = {name: value for name, value in after.items() if value is not None}
    who, at = _who(act.get("who")), _at(place, act.get("at"))
    return RecordedAct(verb=verb, who=who, at=at, told=told, before=before, after=known)


def _deep(act: dict[str, Any]) -> bool:
    """Whether it goes deeper than DEEPEST: more than one may recurse into."""
    level: list[Any] = [act]
    for _depth in range(DEEPEST):
        level = [inner for one in level for inner in _inside(one)]
    return any(isinstance(one, dict | list) for one in level)


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _payload(place: int, payload: Any) -> dict[str, Any]:
    if not isinstance(payload, dict) or not all(_fits(name, value) for name, value in payload.items()):
        raise ValueError(f"what act {place} changed cannot be read")
    kept = storable(payload)
    assert isinstance(kept, dict)
    return kept


def _fits(name: str, value: Any) -> bool:
    """Whether the sentences of actions can be made with this value."""
    if name in _WHOLE:
        return _whole(value)
    if name in _TEXTS:
        return isinstance(value, str)
    if name == "boost":
        return _whole(value) or (isinstance(value, float) and math.isfinite(value))
    return isinstance(value, dict) if name == "params" else True


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53


def _who(value: Any) -> str:
    return storable_text(value)[:WHO_CHARS] if isinstance(value, str) else ""


def _at(place: int, value: Any) -> str:
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        found = None
    if found is None or found.tzinfo is None or not 1970 <= found.year <= LATEST:
        raise ValueError(f"act {place} has no time with a zone, such as 2026-01-31T12:00:00+00:00")
    return found.isoformat()


def acts_document(run: Run) -> list[dict[str, Any]]:
    """Acts on the run as `acts_read` takes them, oldest first: its history, then its own."""
    history = history_of(run.pk)
    return [act.to_json() for act in (*history, *_own_acts(run, after=len(history)))]


def history_of(run_id: int) -> list[RecordedAct]:
    """What had been done to an imported search where it was recorded, oldest first."""
    said = (event.said for event in RunEvent.objects.filter(run_id=run_id).of(RecordedAct).order_by("seq"))
    return [act for act in said if isinstance(act, RecordedAct)]


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


@dataclass(frozen=True)
class ActivityRow(Said):
    """One action. `entry` is the number of its audit row, None for what was done before an import; then `actor` is a
    name from there."""

    at: datetime
    actor: str
    verb: str
    standing: Standing
    entry: int | None = None

    @property
    def imported(self) -> bool:
        return self.entry is None


def activity_of(run: Run) -> list[ActivityRow]:
    """The newest actions on a search."""
    mine = AuditEntry.objects.filter(object_type="run", object_id=str(run.pk)).select_related("actor").order_by("-pk")
    entries = list(mine[:MOST])
    loaded = RUN.load(entries)
    return ([_row(entry, loaded) for entry in entries] + _history(run))[:MOST]


def _row(entry: AuditEntry, loaded: RunEntries) -> ActivityRow:
    row, command = registry.verb(entry.verb), _("the judge") if entry.after.get("by") == "judge" else _("a command")
    actor = entry.actor.get_username() if entry.actor else command
    standing = row.standing(entry, loaded) if row is not None else NO
    said = vars(said_of(entry, loaded))
    return ActivityRow(**said, at=entry.created_at, actor=actor, verb=entry.verb, standing=standing, entry=entry.pk)


def _history(run: Run) -> list[ActivityRow]:
    """What was done to an imported search before it came here, newest first: nothing of it can be undone."""
    acts, rows = history_of(run.pk), []
    for act, undone in zip(acts, history_undone(acts), strict=True):
        said = vars(said_of_event(act.verb, act.after, act.before, run.pk))
        standing = Standing(why_not=_("undone there")) if undone else NO
        at, actor = datetime.fromisoformat(act.at), act.who or _("a command")
        rows.append(ActivityRow(**said, at=at, actor=actor, verb=act.verb, standing=standing))
    return rows[::-1]
