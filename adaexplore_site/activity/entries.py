"""Entries of the audit log as people read them: what was done, to what, what it changed, whether it can be undone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from adaexplore_site.actions import registry, runner
from adaexplore_site.actions.action import Standing, Subject, plain
from adaexplore_site.core.models import AuditEntry

MOST_CHANGES = 4
_HIDDEN = {  # row numbers, whole lists, and what the words say already
    "number", "revision", "current", "decided_at", "decided_by", "seq", "muted_count", "muted_at", "back_to", "moved",
    "other", "acts", "made", "counts", "added", "lessons", "assignee_id", "merged_into_id", "of", "undoes", "action",
    "own", "doubt", "doubt_reason", "retired", "by", "recheck", "rival", "note", "budget", "passed", "within",
}  # fmt: skip


@dataclass(frozen=True)
class Described:
    """One entry in words. `standing` says whether it can be undone, and by whom."""

    entry: AuditEntry
    text: str
    change: str
    subject: Subject
    standing: Standing


def described(entries: Sequence[AuditEntry]) -> list[Described]:
    """These entries in words, in a constant number of queries."""
    loaded = _loaded(entries)
    return [_one(entry, loaded) for entry in entries]


def _loaded(entries: Iterable[AuditEntry]) -> dict[str, Any]:
    """What each kind of object needs to describe its entries."""
    groups: dict[str, list[AuditEntry]] = {}
    for entry in entries:
        groups.setdefault(registry.reader(entry).kind.name, []).append(entry)
    return {name: registry.kind_of(name).load(rows) for name, rows in groups.items()}


def _one(entry: AuditEntry, kinds: dict[str, Any]) -> Described:
    row = registry.reader(entry)
    loaded = kinds[row.kind.name]
    detail = row.detail(entry, loaded)
    return Described(
        entry=entry,
        text=row.describe(entry, loaded),
        change=changed(entry) if detail is None else detail,
        subject=row.kind.subject(entry, loaded) or _gone(entry),
        standing=replace(row.standing(entry, loaded), role=runner.undo_role(row)),
    )


def _gone(entry: AuditEntry) -> Subject:
    """An object that does not exist any more."""
    return Subject(entry.object_type, f"{entry.object_type} {entry.object_id} (deleted)")


def changed(action: AuditEntry) -> str:
    """The fields that differ, such as `state running → paused`."""
    pairs = plain(action, _HIDDEN)
    told = [_pair(name, old, new, name in action.before) for name, old, new in pairs if _plain(new)]
    return ", ".join(told[:MOST_CHANGES]) + (
        f" and {len(told) - MOST_CHANGES} more" if len(told) > MOST_CHANGES else ""
    )


def _pair(name: str, old: Any, new: Any, known: bool) -> str:
    words = name.removesuffix("_id").replace("_", " ")
    return f"{words} {_value(old)} → {_value(new)}" if known else f"{words} {_value(new)}"


def _plain(value: Any) -> bool:
    """Whether it fits a line: no whole rows, no empty lists."""
    return not isinstance(value, dict) and value != [] and value != ""


def _value(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value[:8])) + ("…" if len(value) > 8 else "") if value else "none"
    return str(value)[:200]
