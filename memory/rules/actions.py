"""Actions on rules beside those on one rule (`decisions`): propose, import, decide many at once, undo."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.db.models import F, ProtectedError
from django.urls import reverse
from django.utils import timezone

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Action, ActionForm, Call, Recorded, Result
from adaexplore_site.actions.registry import register
from adaexplore_site.actions.runner import Outcome
from adaexplore_site.core.access import Role
from adaexplore_site.core.audit import ActionRefused, FieldsRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry
from memory.prompting.models import RuleUse
from memory.rules.decisions import (
    DEFER_DAYS,
    ClaimForm,
    RuleAction,
    RulesAction,
    ScopeForm,
    count,
    put_back,
    reason_text,
    snapshot,
    untouched,
)
from memory.rules.files import MAX_BYTES, rules_import
from memory.rules.history import RULE, RULES, UNDO_VERB, said, stands_at
from memory.rules.models import Rule, Sighting
from memory.rules.queries import TYPED, RuleFilter, batch_of, query_of, rule_ids
from memory.rules.services import TextTaken, rule_new, rules_locked, rules_with
from memory.rules.views import card_answer

BATCH = 500  # SQLite takes a limited number of values


@register
class CreateRule(RulesAction):
    """Propose a rule in one's own words."""

    class Form(ClaimForm, ScopeForm):
        pass

    name, label, done = "rule.create", "Propose a rule", "Written"
    role, also = Role.OPERATOR, (Role.REVIEWER,)
    route = "rule-new"
    pages = ("rule-new",)

    def run(self, target: None, data: dict[str, Any], call: Call) -> Result:
        text = data["text"]
        with rules_locked():
            if done := action_done(key=call.key, verb=self.name):
                return self.again(done)
            if known := rules_with(text):
                raise TextTaken(known[0].pk, "Open it instead.")
            rule = rule_new(text=text, scope=data["scope"], origin=Rule.Origin.PERSON, user=call.user)
            after = {**snapshot(rule), "text": text, "sightings": 0}
            entry = action_on(verb=self.name, on=("rule", rule.pk), after=after, **call.who)
        return Result(said(entry), location=reverse("rule-detail", args=[rule.pk]), entry=entry)

    def again(self, entry: AuditEntry) -> Result:
        return replace(Action.again(self, entry), message=said(entry), entry=entry)

    def restore(self, entry: AuditEntry, call: Call) -> list[int]:
        """Remove the new rule, unless it was used or has sightings of its own."""
        rule_remove(untouched(int(entry.object_id), entry.after["revision"]), entry.after.get("sightings", 0))
        return []


def rule_remove(rule: Rule, sightings: int) -> None:
    """Remove a rule that has at most so many sightings and was in no search. Raises ActionRefused."""
    if rule.sightings.count() > sightings or RuleUse.objects.filter(rule=rule).exists():
        raise ActionRefused(f"Rule {rule.pk} has been seen or used since. Reject it instead.")
    Rule.objects.filter(pk=rule.pk).update(current=None)
    try:
        rule.delete()
    except ProtectedError:
        raise ActionRefused(f"A search was started with rule {rule.pk}. Reject it instead.") from None


@register
class ImportRules(RulesAction):
    """Import a file of `rule||count` lines as proposed rules."""

    class Form(ActionForm):
        file = forms.FileField(
            error_messages={
                "required": "No file was uploaded. Choose a text file with one rule||count a line.",
                "empty": "The file is empty. Each line must be a rule, two bars and a count: rule||3.",
            },
            help_text="A name, and text or base64.",
        )

        def clean_file(self) -> UploadedFile[bytes]:
            sent: UploadedFile[bytes] = self.cleaned_data["file"]
            if sent.size is not None and sent.size > MAX_BYTES:
                raise forms.ValidationError(f"The file is larger than {MAX_BYTES >> 20} MiB. Split it.")
            return sent

    kind = RULES
    name, label, noun = "rules.import", "Import rules", "import"
    route, path = "rule-import", "rules/import"
    pages = ("rule-list",)

    def run(self, target: None, data: dict[str, Any], call: Call) -> Result:
        sent = data["file"]
        try:
            entry = rules_import(data=sent.read(), name=sent.name or "upload", **call.who)
        except ActionRefused as error:
            raise FieldsRefused({"file": str(error)}) from error
        return Result(said(entry), entry=entry)

    def restore(self, entry: AuditEntry, call: Call) -> list[int]:
        """Remove rules that the import made and nobody has changed; restore counts that no later file changed."""
        made = Rule.objects.in_bulk(entry.after["made"])
        linked = {
            *Sighting.objects.order_by().values_list("rule", flat=True).distinct(),
            *Rule.objects.order_by().values_list("merged_into", flat=True).distinct(),
            *RuleUse.objects.order_by().values_list("rule", flat=True).distinct(),
        }
        left = [pk for pk, rule in made.items() if rule.revision or pk in linked]
        gone = Rule.objects.filter(pk__in=made.keys() - set(left))
        gone.update(current=None)
        try:
            gone.delete()
        except ProtectedError:
            raise ActionRefused("A search was started with some of these rules. Reject them instead.") from None
        given = {pk: {"imported_count": number} for pk, number in entry.after.get("counts", [])}
        for pk, number, place in entry.before.get("counts", []):
            Rule.objects.filter(pk=pk, **given.get(pk, {})).update(imported_count=number, imported_from=place)
        return left

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return f"{count(len(entry.after['made']), 'rule')} imported, {entry.after['known']} known already"


@register
class BulkRules(RulesAction):
    """Decide on every rule of a filter at once, as its preview showed them."""

    class Form(ActionForm):
        act = forms.CharField(help_text="approve, reject, defer, retire or restore.")
        expected = forms.IntegerField(help_text="Rules that it changes.")
        typed = forms.IntegerField(required=False, help_text=f"The same number above {TYPED}.")
        reason = forms.CharField(required=False, help_text="Number of a reason.")
        own_reason = forms.CharField(required=False, help_text="Or in your own words.")
        seen = forms.CharField(required=False, help_text="The state of these rules that the preview showed.")
        tab = forms.CharField(required=False, help_text="queue, library or closed.")
        q = forms.CharField(required=False, help_text="Words or number.")
        origin = forms.CharField(required=False)
        scope = forms.CharField(required=False, help_text="any, family, arch or triton.")
        least = forms.IntegerField(required=False, min_value=0, help_text="Support.")
        flagged = forms.BooleanField(required=False, help_text="Only wording that must be edited first.")
        adapt = forms.IntegerField(required=False, min_value=0, help_text="Number of an adapt run.")

        def clean_seen(self) -> str | None:
            """None where it was not sent at all: programs see no preview."""
            return str(self.cleaned_data["seen"]) if "seen" in self.data else None

    kind = RULES
    name, label, noun = "rules.bulk", "Decide many rules at once", "batch"
    route = "rule-bulk"
    pages = ("rule-bulk",)
    past: ClassVar[Mapping[str, str]] = {
        "approve": "approved", "reject": "rejected", "retire": "retired", "defer": "deferred", "restore": "restored",
    }  # fmt: skip

    def run(self, target: None, data: dict[str, Any], call: Call) -> Result:
        """One entry of the audit log for each rule, and one for the batch, whose undo restores all of them."""
        act, expected, chosen, now = data["act"], data["expected"], RuleFilter.of(data), timezone.now()
        if data["typed"] is not None:
            expected = data["typed"]
        elif expected > TYPED:
            raise ActionRefused(f"Type {expected} to confirm: it changes more than {TYPED} rules.")
        reason = reason_text(data) if act in ("reject", "retire") else ""
        with rules_locked():
            if done := action_done(key=call.key, verb=self.name):
                return self.again(done)
            batch = batch_of(act, rule_ids(chosen, now))
            if len(batch.ready) != expected:
                raise ActionRefused(f"{len(batch.ready)} rules match now, not {expected}. Review the new preview.")
            if data["seen"] is not None and data["seen"] != batch.seen:
                raise ActionRefused(
                    "Rules of this filter were changed after the preview. Review it again, then decide."
                )
            if not batch.ready:
                raise ActionRefused("The decision applies to no rule of this filter. Nothing was changed.")
            decision = registry.action(f"rule.{act}")
            assert isinstance(decision, RuleAction)
            rows = []
            for rule in batch.ready:
                before = snapshot(rule)
                extra = decision.change(rule, {"reason": reason, "days": DEFER_DAYS}, call.user, now) or {}
                rule.revision += 1
                after = {**snapshot(rule), **extra, "bulk": True}
                rows.append(_entry(decision.name, rule, call, before=before, after=after))
            _write(batch.ready)
            acts = AuditEntry.objects.bulk_create(rows)
            after = {"act": act, "count": len(acts), "left": len(batch.left), "acts": [row.pk for row in acts]}
            entry = action_on(verb=self.name, on=("rules", 0), after={**after, "reason": reason}, **call.who)
        query = query_of(chosen)
        return Result(said(entry), location=reverse("rule-list") + (f"?{query}" if query else ""), entry=entry)

    def restore(self, entry: AuditEntry, call: Call) -> list[int]:
        """Every rule of the batch that nobody has changed since is again what it was."""
        rows = AuditEntry.objects.filter(pk__in=entry.after["acts"], object_type="rule")
        was = {int(row.object_id): row for row in rows}
        rules = Rule.objects.in_bulk(was)
        stands = stands_at(rules.values())
        ready = [rule for pk, rule in rules.items() if was[pk].after["revision"] in stands[pk]]
        undos = []
        for rule in ready:
            row = was[rule.pk]
            put_back(rule, row.before)
            rule.revision += 1
            after = {"undoes": row.pk, "verb": row.verb, "batch": entry.pk, **snapshot(rule)}
            undos.append(_entry(UNDO_VERB, rule, call, after={**after, "back_to": row.before["revision"]}))
        _write(ready)
        AuditEntry.objects.bulk_create(undos)
        return sorted(rules.keys() - {rule.pk for rule in ready})

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        act = entry.after["act"]
        return f"{count(entry.after['count'], 'rule')} {self.past.get(act, act)} at once"


def _entry(verb: str, rule: Rule, call: Call, **values: Any) -> AuditEntry:
    return AuditEntry(verb=verb, object_type="rule", object_id=str(rule.pk), actor=call.user, **values)


def _write(rules: Iterable[Rule]) -> None:
    """Save what decisions change, in a few statements: a batch ends in a few states only. Claims on cards end."""
    names = ("state", "reject_reason", "recheck", "deferred_until", "decided_by_id", "decided_at")
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for rule in rules:
        groups[tuple(getattr(rule, name) for name in names)].append(rule.pk)
    for values, pks in groups.items():
        fields = dict(zip(names, values, strict=True))
        for start in range(0, len(pks), BATCH):
            chunk = Rule.objects.filter(pk__in=pks[start : start + BATCH])
            chunk.update(**fields, revision=F("revision") + 1, held_by=None, held_until=None)


@register
class UndoRules(Action):
    """Undo an action on rules, while no later one stands."""

    class Form(ActionForm):
        action = forms.IntegerField(widget=forms.HiddenInput, help_text="Number of the entry in the activity log.")

    kind = RULE
    name, label = UNDO_VERB, "Undo the last action on rules"
    role = Role.REVIEWER
    route, path = "rule-undo", "rules/undo"
    pages, key, page_key = ("rule-list",), "u", True
    irreversible = "do the action again instead"

    def run(self, target: None, data: dict[str, Any], call: Call) -> Result:
        entry = AuditEntry.objects.filter(pk=data["action"], object_type__in=("rule", "rules")).first()
        if entry is None:
            raise ActionRefused("There is no such action on rules. Reload the page.")
        result = registry.reader(entry).undo(entry, call)
        gone = entry.object_type == "rule" and not Rule.objects.filter(pk=entry.object_id).exists()
        return replace(result, location=reverse("rule-list") if gone else "")

    def again(self, entry: AuditEntry) -> Result:
        return Result(said(entry), entry=entry)

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        verb = entry.after["verb"]
        noun = getattr(registry.verb(verb), "noun", "") or verb.split(".")[-1]
        left = len(entry.after.get("left", ()))
        return f"Undone: {noun}" + (f". {count(left, 'rule')} changed since stay as they are" if left else "")

    def detail(self, entry: AuditEntry, loaded: Any) -> str:
        return ""

    def home(self, target: None) -> str:
        return reverse("rule-list")

    def panel(
        self,
        request: Any,
        target: None,
        *,
        outcome: Outcome | None = None,
        error: ActionRefused | None = None,
        **context: Any,
    ) -> Any:
        return card_answer(request, None, outcome.entry if outcome else None, error)


class RulePart(Recorded):
    """What an action on one rule does to another one: undone with it."""

    kind = RULE
    other: ClassVar[str]  # where the entry has the other rule's number
    noun: ClassVar[str] = ""

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return f"{self.done} {entry.after[self.other]}"


@register
class TakeIn(RulePart):
    name, noun, done, other = "rule.take_in", "merge of another rule", "Given the sightings of rule", "from"
    irreversible = "undo the merge of the other rule instead"


@register
class GiveBack(RulePart):
    name, noun, done, other = "rule.give_back", "separation from another rule", "Separated from rule", "to"
    irreversible = "undo the separation of the other rule instead"


@register
class SplitOff(RulePart):
    name, done, other = "rule.split_off", "Split off rule", "split_from"
    irreversible = "undo the split of the first rule instead"


@register
class ExportRules(Recorded):
    kind = RULES
    name = "rules.export"
    irreversible = "a download changes nothing"

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return f"{count(entry.after['count'], 'rule')} exported"
