"""The life of one rule: its wordings, its acts, and the rules that became part of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from adaexplore_site.actions import registry
from adaexplore_site.core.models import AuditEntry
from memory.rules.changes import Piece, changes
from memory.rules.desk import scope_of
from memory.rules.models import Rule, RuleVersion
from memory.rules.scopes import Scope
from memory.rules.undo import UNDO, standing

MOST = 100


@dataclass(frozen=True)
class Wording:
    """One version, with what it changed of the version before."""

    version: RuleVersion
    scope: Scope
    change: tuple[Piece, ...]
    scope_changed: bool
    current: bool


@dataclass(frozen=True)
class Deed:
    """One act. `undo`: it is the last one that stands, and can be undone; `undone`: it was."""

    id: int
    at: datetime
    actor: str
    text: str
    undone: bool
    undo: bool


def said(entry: AuditEntry) -> str:
    """What was done, as a sentence with its rule: "Rule 12 was approved."."""
    row = registry.verb(entry.verb)
    words = (row.describe(entry, None) if row is not None else "Changed").rstrip(".")
    if entry.object_type == "rules" or entry.verb == UNDO:
        return f"{words}."
    return f"Rule {entry.object_id} was {words[:1].lower()}{words[1:]}."


def wordings_of(rule: Rule) -> list[Wording]:
    """Every version of a rule, the newest first."""
    made: list[Wording] = []
    before: RuleVersion | None = None
    for version in rule.versions.select_related("author").order_by("number"):
        change = changes(before.text, version.text) if before and before.text != version.text else ()
        other = before is not None and scope_of(before) != scope_of(version)
        made.append(Wording(version, scope_of(version), change, other, version.pk == rule.current_id))
        before = version
    return made[::-1]


def deeds_of(rule: Rule) -> list[Deed]:
    """What people did to a rule, the newest first, at most a hundred."""
    rows = AuditEntry.objects.filter(object_type="rule", object_id=str(rule.pk)).select_related("actor")
    acts = list(rows.order_by("-pk")[:MOST])
    gone = {act.after.get("undoes") for act in acts if act.verb == UNDO}
    now = standing(rule)
    last = next((act.pk for act in acts if act.after.get("revision") in now and act.verb != UNDO), None)
    parts = ("rule.take_in", "rule.give_back", "rule.split_off")
    return [
        Deed(
            id=act.pk,
            at=act.created_at,
            actor=act.actor.get_username() if act.actor else "system",
            text=said(act),
            undone=act.pk in gone,
            undo=act.pk == last and act.pk not in gone and act.verb not in parts,
        )
        for act in acts
    ]


def last_deed(rule: Rule) -> Mapping[str, str]:
    """Who acted on the rule last, and how: told to whoever decided on an older card."""
    row = AuditEntry.objects.filter(object_type="rule", object_id=str(rule.pk)).select_related("actor").first()
    if row is None:
        return {}
    return {"actor": row.actor.get_username() if row.actor else "system", "text": said(row)}
