"""Actions on searches in words, for the feed and the activity of a search: the sentence that `describe` gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adaexplore_site.actions import registry
from adaexplore_site.core.models import AuditEntry
from search.records.kinds import RUN, RunEntries


@dataclass(frozen=True)
class Said:
    """An action in words. `text` stands after "Node 7" where `number` names the node, else by itself."""

    text: str
    detail: str
    number: int | None


def said_of(entry: AuditEntry, loaded: RunEntries | None = None) -> Said:
    """What was done to a search, by an entry of the audit log or by what an event or a recorded search tells of one."""
    row, number = registry.verb(entry.verb), entry.after.get("number")
    if row is None or row.kind is not RUN:  # a recorded search may name anything
        return Said(entry.verb.replace(".", " "), "", number)
    loaded = loaded or RunEntries([entry], {})
    text, detail, of_node = row.describe(entry, loaded), row.detail(entry, loaded) or "", f"Node {number} "
    if number is None or not text.startswith(of_node):
        return Said(text, detail, None)
    return Said(text.removeprefix(of_node), detail, number)


def told(verb: str, after: Mapping[str, Any], before: Mapping[str, Any] | None = None, run_id: int = 0) -> Said:
    """The same of something that is in no audit log here."""
    of = {"object_type": "run", "object_id": str(run_id)}
    return said_of(AuditEntry(verb=verb, after=dict(after), before=dict(before or {}), **of))


def limits_text(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """`steps 20 → 30, wall_s 60 → 90`."""
    return ", ".join(f"{name} {before.get(name)} → {value}" for name, value in after.items())
