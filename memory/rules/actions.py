"""Actions on rules beside those on one rule (`rule_actions`): propose, import, decide many at once, undo."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from django import forms
from django.contrib.auth.models import User
from django.core.files.uploadedfile import UploadedFile
from django.db.models import F, ProtectedError
from django.forms.models import model_to_dict
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext, ngettext, ngettext_lazy
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Action, ActionForm, Call, Recorded, Result, Standing
from adaexplore_site.actions.registry import register
from adaexplore_site.core.access import Role, can
from adaexplore_site.core.audit import ActionRefused, FieldsRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.text import storable_text
from memory.prompting.models import RuleUse
from memory.prompting.scopes import scope_asked
from memory.rules.files import MAX_BYTES, rules_import
from memory.rules.models import REASONS, Rule, Sighting
from memory.rules.queries import (
    RULE,
    RULES,
    TYPED,
    UNDO_VERB,
    RuleEntries,
    RuleFilter,
    batch_of,
    query_of,
    rule_ids,
    said,
    stands_at,
    undone,
)
from memory.rules.services import claim_checked, rule_load, rule_new, rules_locked, rules_with, text_taken
from memory.rules.views import card_answer

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

BATCH = 500  # SQLite takes a limited number of values
DEFER_DAYS = 7
REASON_CHARS = 200
# What actions change, but for `revision`, which goes on counting: stored in entries of the audit log.
CHANGED_FIELDS = (
    "state", "current", "reject_reason", "recheck", "deferred_until", "decided_by", "decided_at", "merged_into",
)  # fmt: skip
T = TypeVar("T")


def valid(check: Callable[..., T], *given: Any) -> T:
    """What the check returns. Raises ValidationError with what it refuses."""
    try:
        return check(*given)
    except (ActionRefused, ValueError) as error:
        raise forms.ValidationError(str(error)) from error


def reason_text(data: Mapping[str, Any]) -> str:
    """The reason of a form: the number of one of `REASONS`, or the person's own words. Raises ActionRefused."""
    given = str(data.get("own_reason") or data.get("reason") or "")
    reason = " ".join(storable_text(REASONS.get(given.strip(), given)).split())
    if not reason:
        text = gettext("Give a reason: a number from 1 to %(last)d, or your own words.")
        raise ActionRefused(text % {"last": len(REASONS)})
    if len(reason) > REASON_CHARS:
        text = gettext("The reason has %(length)d characters; the limit is %(limit)d.")
        raise ActionRefused(text % {"length": len(reason), "limit": REASON_CHARS})
    return reason


class ClaimForm(ActionForm):
    text = forms.CharField(
        widget=forms.Textarea,
        error_messages={"required": _("The rule has no text. Write in one sentence what to do or what not to do.")},
        help_text=_("The rule in one sentence."),
    )

    def clean_text(self) -> str:
        return valid(claim_checked, self.cleaned_data["text"])


class ScopeForm(ActionForm):
    """`cleaned_data["scope"]` is a memory.prompting.scopes.Scope; empty fields bind nothing."""

    family = forms.CharField(required=False, help_text=_("Operator family."))
    arch = forms.CharField(required=False, help_text=_("GPU architecture, such as sm_90."))
    triton = forms.CharField(required=False, help_text=_("Triton versions, such as >=3.4,<3.6."))

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        return {**data, "scope": valid(scope_asked, data)}


class OnRules(Action):
    """Anything that is done to rules. A repeated call says again what the first one did."""

    kind = RULE
    role: ClassVar[Role] = Role.REVIEWER

    def again(self, entry: AuditEntry) -> Result:
        return Result(said(entry), entry=entry)

    def home(self, target: Rule | None) -> str:
        return reverse("rule-list")


class CardAction(OnRules):
    """One that scripts of the review queue do: they get the cards as they are afterwards, as JSON."""

    page_key = True

    def panel(self, request: Any, target: Rule | None, **context: Any) -> Any:
        outcome, error = context.get("outcome"), context.get("error")
        return card_answer(request, target.pk if target else None, outcome.entry if outcome else None, error)


class RulesAction(OnRules):
    """What is done to rules. Its entry is undone while no later one on the same rule stands."""

    undo_role: ClassVar[Role] = Role.REVIEWER
    inverse = UNDO_VERB
    noun: ClassVar[StrOrPromise] = ""  # what its undo says was undone; the end of `name` when empty

    def standing(self, entry: AuditEntry, loaded: RuleEntries) -> Standing:
        return loaded.standing(entry)

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        with rules_locked():
            if done := action_done(key=call.key, verb=UNDO_VERB):
                return Result(said(done), entry=done)
            if undone(entry):
                raise ActionRefused(gettext("This action was undone already."))
            left = self.restore(entry, call)
            after = {"undoes": entry.pk, "verb": entry.verb, **back_at(entry), **({"left": left} if left else {})}
            row = action_on(verb=UNDO_VERB, on=(entry.object_type, int(entry.object_id)), after=after, **call.who)
        return Result(said(row), entry=row)

    def restore(self, entry: AuditEntry, call: Call) -> list[int]:
        """Put back what the entry changed. Returns rules that were changed since and stay as they are."""
        raise NotImplementedError

    def tells(self, page: str, user: User) -> bool:
        """Lists of rules show a reviewer their last action, with Undo."""
        return page.partition("?")[0] == reverse("rule-list") and can(user, Role.REVIEWER)


def snapshot(rule: Rule) -> dict[str, Any]:
    """What actions change, as JSON: `put_back` restores it."""
    found = model_to_dict(rule, [*CHANGED_FIELDS, "revision"])
    return {name: one.isoformat() if isinstance(one, datetime) else one for name, one in found.items()}


def put_back(rule: Rule, old: Mapping[str, Any]) -> None:
    """Set the fields of a snapshot; the revision goes on counting."""
    for name in CHANGED_FIELDS:
        field: Any = Rule._meta.get_field(name)
        setattr(rule, field.attname, field.to_python(old[name]))


def untouched(rule_id: int, revision: int) -> Rule:
    """The rule, as it was after that revision. Raises ActionRefused."""
    rule = rule_load(rule_id)
    if revision not in stands_at([rule])[rule.pk]:
        text = gettext("Rule %(rule)d was changed after this action. Undo what came later first.")
        raise ActionRefused(text % {"rule": rule_id})
    return rule


def back_at(entry: AuditEntry) -> Mapping[str, int]:
    """Of the rule of an entry that was just undone: its revision now, and the one that it is back at."""
    rule = Rule.objects.filter(pk=entry.object_id).first() if entry.object_type == "rule" else None
    return {"revision": rule.revision, "back_to": entry.before["revision"]} if rule is not None else {}


@register
class CreateRule(RulesAction):
    """Propose a rule in one's own words."""

    class Form(ClaimForm, ScopeForm):
        pass

    name, label, done = "rule.create", _("Propose a rule"), _("Written")
    role, also = Role.OPERATOR, (Role.REVIEWER,)
    route = "rule-new"
    pages = ("rule-new",)

    def run(self, target: None, data: dict[str, Any], call: Call) -> Result:
        text = data["text"]
        with rules_locked():
            if done := action_done(key=call.key, verb=self.name):
                return self.again(done)
            if known := rules_with(text):
                raise text_taken(known[0].pk, gettext("Open it instead."))
            rule = rule_new(text=text, scope=data["scope"], origin=Rule.Origin.PERSON, user=call.user)
            after = {**snapshot(rule), "text": text, "sightings": 0}
            entry = action_on(verb=self.name, on=("rule", rule.pk), after=after, **call.who)
        return Result(said(entry), location=reverse("rule-detail", args=[rule.pk]), entry=entry)

    def again(self, entry: AuditEntry) -> Result:
        return replace(super().again(entry), location=Action.again(self, entry).location)

    def restore(self, entry: AuditEntry, call: Call) -> list[int]:
        """Remove the new rule, unless it was used or has sightings of its own."""
        rule_remove(untouched(int(entry.object_id), entry.after["revision"]), entry.after.get("sightings", 0))
        return []


def rule_remove(rule: Rule, sightings: int) -> None:
    """Remove a rule that has at most so many sightings and was in no search. Raises ActionRefused."""
    if rule.sightings.count() > sightings or RuleUse.objects.filter(rule=rule).exists():
        raise ActionRefused(
            gettext("Rule %(rule)d has been seen or used since. Reject it instead.") % {"rule": rule.pk}
        )
    Rule.objects.filter(pk=rule.pk).update(current=None)
    try:
        rule.delete()
    except ProtectedError:
        text = gettext("A search was started with rule %(rule)d. Reject it instead.")
        raise ActionRefused(text % {"rule": rule.pk}) from None


@register
class ImportRules(RulesAction):
    """Import a file of `rule||count` lines as proposed rules."""

    class Form(ActionForm):
        file = forms.FileField(
            error_messages={
                "required": _("No file was uploaded. Choose a text file with one rule||count a line."),
                "empty": _("The file is empty. Each line must be a rule, two bars and a count: rule||3."),
            },
            help_text=_("A name, and text or base64."),
        )

        def clean_file(self) -> UploadedFile[bytes]:
            sent: UploadedFile[bytes] = self.cleaned_data["file"]
            if sent.size is not None and sent.size > MAX_BYTES:
                text = gettext("The file is larger than %(most)d MiB. Split it.")
                raise forms.ValidationError(text % {"most": MAX_BYTES >> 20})
            return sent

    kind = RULES
    name, label, noun, rank = "rules.import", _("Import rules"), _("import"), 1
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
            text = gettext("A search was started with some of these rules. Reject them instead.")
            raise ActionRefused(text) from None
        given = {pk: {"imported_count": number} for pk, number in entry.after.get("counts", [])}
        for pk, number, place in entry.before.get("counts", []):
            Rule.objects.filter(pk=pk, **given.get(pk, {})).update(imported_count=number, imported_from=place)
        return left

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        made, known = len(entry.after["made"]), entry.after["known"]
        text = ngettext("%(n)d rule imported, %(m)d known already", "%(n)d rules imported, %(m)d known already", made)
        return text % {"n": made, "m": known}


@register
class BulkRules(RulesAction):
    """Decide on every rule of a filter at once, as its preview showed them."""

    class Form(ActionForm):
        act = forms.CharField(help_text=_("approve, reject, defer, retire or restore."))
        expected = forms.IntegerField(help_text=_("Rules that it changes."))
        typed = forms.IntegerField(required=False, help_text=_("The same number above 50."))
        reason = forms.CharField(required=False, help_text=_("Number of a reason."))
        own_reason = forms.CharField(required=False, help_text=_("Or in your own words."))
        seen = forms.CharField(required=False, help_text=_("The state of these rules that the preview showed."))
        tab = forms.CharField(required=False, help_text=_("queue, library or closed."))
        q = forms.CharField(required=False, help_text=_("Words or number."))
        origin = forms.CharField(required=False)
        scope = forms.CharField(required=False, help_text=_("any, family, arch or triton."))
        least = forms.IntegerField(required=False, min_value=0, help_text=_("Support."))
        flagged = forms.BooleanField(required=False, help_text=_("Only wording that must be edited first."))
        adapt = forms.IntegerField(required=False, min_value=0, help_text=_("Number of an adapt run."))

        def clean_seen(self) -> str | None:
            """None where it was not sent at all: programs see no preview."""
            return str(self.cleaned_data["seen"]) if "seen" in self.data else None

    kind = RULES
    name, label, noun = "rules.bulk", _("Decide many rules at once"), _("batch")
    route = "rule-bulk"
    pages = ("rule-bulk",)
    past: ClassVar[Mapping[str, Any]] = {
        "approve": ngettext_lazy("%(n)d rule approved at once", "%(n)d rules approved at once", "n"),
        "reject": ngettext_lazy("%(n)d rule rejected at once", "%(n)d rules rejected at once", "n"),
        "retire": ngettext_lazy("%(n)d rule retired at once", "%(n)d rules retired at once", "n"),
        "defer": ngettext_lazy("%(n)d rule deferred at once", "%(n)d rules deferred at once", "n"),
        "restore": ngettext_lazy("%(n)d rule restored at once", "%(n)d rules restored at once", "n"),
    }

    def run(self, target: None, data: dict[str, Any], call: Call) -> Result:
        """One entry of the audit log for each rule, and one for the batch, whose undo restores all of them."""
        act, expected, chosen, now = data["act"], data["expected"], RuleFilter.of(data), timezone.now()
        if data["typed"] is not None:
            expected = data["typed"]
        elif expected > TYPED:
            text = gettext("Type %(expected)d to confirm: it changes more than %(most)d rules.")
            raise ActionRefused(text % {"expected": expected, "most": TYPED})
        reason = reason_text(data) if act in ("reject", "retire") else ""
        with rules_locked():
            if done := action_done(key=call.key, verb=self.name):
                return self.again(done)
            batch = batch_of(act, rule_ids(chosen, now))
            if len(batch.ready) != expected:
                text = gettext("%(now)d rules match now, not %(expected)d. Review the new preview.")
                raise ActionRefused(text % {"now": len(batch.ready), "expected": expected})
            if data["seen"] is not None and data["seen"] != batch.seen:
                text = gettext("Rules of this filter were changed after the preview. Review it again, then decide.")
                raise ActionRefused(text)
            if not batch.ready:
                text = gettext("The decision applies to no rule of this filter. Nothing was changed.")
                raise ActionRefused(text)
            decision: Any = registry.action(f"rule.{act}")
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
        return str(self.past[entry.after["act"]] % {"n": entry.after["count"]})


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
class UndoRules(CardAction):
    """Undo an action on rules, while no later one stands."""

    class Form(ActionForm):
        action = forms.IntegerField(widget=forms.HiddenInput, help_text=_("Number of the entry in the activity log."))

    name, label, rank = UNDO_VERB, _("Undo the last action on rules"), 1
    route, path = "rule-undo", "rules/undo"
    pages, key = ("rule-list",), "u"
    irreversible = _("do the action again instead")

    def run(self, target: None, data: dict[str, Any], call: Call) -> Result:
        entry = AuditEntry.objects.filter(pk=data["action"], object_type__in=("rule", "rules")).first()
        if entry is None:
            raise ActionRefused(gettext("There is no such action on rules. Reload the page."))
        result = registry.reader(entry).undo(entry, call)
        gone = entry.object_type == "rule" and not Rule.objects.filter(pk=entry.object_id).exists()
        return replace(result, location=reverse("rule-list") if gone else "")

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        verb, left = entry.after["verb"], len(entry.after.get("left", ()))
        facts = {"what": getattr(registry.verb(verb), "noun", "") or verb.split(".")[-1], "n": left}
        if not left:
            return gettext("Undone: %(what)s") % facts
        text = ngettext(
            "Undone: %(what)s. %(n)d rule changed since stay as they are",
            "Undone: %(what)s. %(n)d rules changed since stay as they are",
            left,
        )
        return text % facts

    def detail(self, entry: AuditEntry, loaded: Any) -> str:
        return ""


class RulePart(Recorded):
    """What an action on one rule does to another one: undone with it."""

    kind = RULE
    other: ClassVar[str]  # where the entry has the other rule's number
    noun: ClassVar[StrOrPromise] = ""

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return self.done % {"rule": entry.after[self.other]}


@register
class TakeIn(RulePart):
    name, noun, other = "rule.take_in", _("merge of another rule"), "from"
    done = _("Given the sightings of rule %(rule)d")
    irreversible = _("undo the merge of the other rule instead")


@register
class GiveBack(RulePart):
    name, noun, other = "rule.give_back", _("separation from another rule"), "to"
    done = _("Separated from rule %(rule)d")
    irreversible = _("undo the separation of the other rule instead")


@register
class SplitOff(RulePart):
    name, other = "rule.split_off", "split_from"
    done = _("Split off rule %(rule)d")
    irreversible = _("undo the split of the first rule instead")


@register
class ExportRules(Recorded):
    kind = RULES
    name = "rules.export"
    irreversible = _("a download changes nothing")

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        number = entry.after["count"]
        return ngettext("%(n)d rule exported", "%(n)d rules exported", number) % {"n": number}
