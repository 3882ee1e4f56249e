"""What was done to rules: entries of the audit log as sentences, which of them can be undone, and old versions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import CHANGED, UNDO, UNDONE, Kind, Standing, Subject
from adaexplore_site.core.models import AuditEntry
from memory.prompting.scopes import Scope
from memory.rules.models import Rule, RuleVersion
from memory.rules.services import rules_locked
from memory.rules.wording import Piece, changes

UNDO_VERB = "rule.undo"
MOST = 100


@dataclass(frozen=True)
class RuleEntries:
    """The rules that are still there, which entries were undone, and the revisions that each rule is as it was at."""

    rules: Mapping[int, Rule]
    undone: frozenset[int]
    stands: Mapping[int, frozenset[int]]

    def standing(self, entry: AuditEntry) -> Standing:
        """Whether it can be undone: it was not yet, and the rule is as the entry left it."""
        if entry.pk in self.undone:
            return UNDONE
        if entry.object_type == "rules":
            return UNDO
        if int(entry.object_id) not in self.rules:
            return Standing(why_not="the rule no longer exists")
        return UNDO if entry.after.get("revision") in self.stands[int(entry.object_id)] else CHANGED


class RuleKind(Kind):
    """Rules as the activity log shows them."""

    name = "rule"

    def load(self, entries: Sequence[AuditEntry]) -> RuleEntries:
        ids = {entry.object_id for entry in entries}
        rules = Rule.objects.in_bulk({int(pk) for pk in ids}) if self.name == "rule" else {}
        undos = AuditEntry.objects.filter(verb=UNDO_VERB, object_type=self.name, object_id__in=ids).order_by()
        undone = frozenset(after["undoes"] for after in undos.values_list("after", flat=True))
        return RuleEntries(rules, undone, stands_at(rules.values()))

    def subject(self, entry: AuditEntry, loaded: RuleEntries) -> Subject | None:
        if entry.object_type == "rules":
            return Subject("rules", "several rules", reverse("rule-list"))
        pk = int(entry.object_id)
        return Subject("rule", f"rule {pk}", reverse("rule-detail", args=[pk])) if pk in loaded.rules else None

    def lock(self, target: Rule) -> Rule:
        """The rule's row. Services lock all rules before a row, so this does, too: otherwise two could wait for each
        other."""
        with rules_locked():
            return Rule.objects.select_for_update(of=("self",)).get(pk=target.pk)

    def version(self, target: Rule) -> int:
        return target.revision

    def now(self, target: Rule) -> dict[str, Any]:
        text = target.current.text if target.current is not None else None
        return {"revision": target.revision, "state": target.state, "text": text}


class RulesKind(RuleKind):
    """Many rules at once: batches and files."""

    name = "rules"


RULE, RULES = RuleKind(), RulesKind()


def stands_at(rules: Iterable[Rule]) -> dict[int, frozenset[int]]:
    """Revisions that each rule is as it was at: its own, then those that undos in a row have brought it back to."""
    wanted = {rule.pk: rule.revision for rule in rules}
    ids = [str(pk) for pk in wanted]
    undos = AuditEntry.objects.filter(verb=UNDO_VERB, object_type="rule", object_id__in=ids).order_by()
    back: dict[int, dict[int, int]] = {pk: {} for pk in wanted}
    for pk, after in undos.values_list("object_id", "after"):
        if "back_to" in after:
            back[int(pk)][after["revision"]] = after["back_to"]
    found: dict[int, frozenset[int]] = {}
    for rule, revision in wanted.items():
        row = [revision]
        while row[-1] in back[rule]:
            row.append(back[rule][row[-1]])
        found[rule] = frozenset(row)
    return found


def undone(entry: AuditEntry) -> bool:
    """Whether an undo of this entry is in the audit log."""
    mine = AuditEntry.objects.filter(verb=UNDO_VERB, object_type=entry.object_type, object_id=entry.object_id)
    return mine.filter(after__undoes=entry.pk).exists()


def said(entry: AuditEntry) -> str:
    """What was done, as a sentence with its rule: "Rule 12 was approved."."""
    words = registry.reader(entry).describe(entry, None).rstrip(".")
    if entry.object_type == "rules" or entry.verb == UNDO_VERB:
        return f"{words}."
    return f"Rule {entry.object_id} was {words[:1].lower()}{words[1:]}."


@dataclass(frozen=True)
class VersionRow:
    """One version, with what it changed of the version before."""

    version: RuleVersion
    scope: Scope
    change: tuple[Piece, ...]
    scope_changed: bool
    current: bool


def versions_of(rule: Rule) -> list[VersionRow]:
    """Every version of a rule, the newest first."""
    rows: list[VersionRow] = []
    before: RuleVersion | None = None
    for version in rule.versions.select_related("author").order_by("number"):
        change = changes(before.text, version.text) if before and before.text != version.text else ()
        other = before is not None and before.scope != version.scope
        rows.append(VersionRow(version, version.scope, change, other, version.pk == rule.current_id))
        before = version
    return rows[::-1]


@dataclass(frozen=True)
class HistoryRow:
    """One action on a rule, and whether it can be undone or was."""

    entry: AuditEntry
    text: str
    standing: Standing
    undone: bool

    @property
    def actor(self) -> str:
        return self.entry.actor.get_username() if self.entry.actor else "system"


def history_of(rule: Rule, most: int = MOST) -> list[HistoryRow]:
    """What people did to a rule, the newest first."""
    rows = AuditEntry.objects.filter(object_type="rule", object_id=str(rule.pk)).select_related("actor")
    entries = list(rows.order_by("-pk")[:most])
    loaded = RULE.load(entries)
    return [
        HistoryRow(row, said(row), registry.reader(row).standing(row, loaded), row.pk in loaded.undone)
        for row in entries
    ]
