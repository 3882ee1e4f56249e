"""Rules as the activity log shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from adaexplore_site.actions.action import CHANGED, UNDO, UNDONE, Kind, Standing, Subject
from adaexplore_site.core.models import AuditEntry
from memory.rules.desk import rules_locked
from memory.rules.models import Rule
from memory.rules.undo import UNDO as VERB
from memory.rules.undo import revisions_back


@dataclass(frozen=True)
class RuleEntries:
    """The rules that are still there, which entries were undone, and the revisions that each rule stands at."""

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
            return Standing(why_not="the rule is gone")
        return UNDO if entry.after.get("revision") in self.stands[int(entry.object_id)] else CHANGED


class RuleKind(Kind):
    name = "rule"

    def load(self, entries: Sequence[AuditEntry]) -> RuleEntries:
        ids = {entry.object_id for entry in entries}
        rules = Rule.objects.in_bulk({int(pk) for pk in ids}) if self.name == "rule" else {}
        undos = AuditEntry.objects.filter(verb=VERB, object_type=self.name, object_id__in=ids).order_by()
        undone, back = set[int](), {pk: dict[int, int]() for pk in rules}
        for pk, after in undos.values_list("object_id", "after"):
            undone.add(after["undoes"])
            if int(pk) in back and "back_to" in after:
                back[int(pk)][after["revision"]] = after["back_to"]
        stands = {pk: frozenset(revisions_back(rule.revision, back[pk])) for pk, rule in rules.items()}
        return RuleEntries(rules, frozenset(undone), stands)

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
