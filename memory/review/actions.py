"""Actions on rules: decide on one, word it, merge and split; many at once; import; propose; undo."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from django import forms
from django.contrib.auth.models import User
from django.core.files.uploadedfile import UploadedFile
from django.urls import reverse
from django.utils import timezone

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Action, ActionForm, Call, Recorded, Result, Standing, missing
from adaexplore_site.actions.fields import NumberListField
from adaexplore_site.actions.registry import register
from adaexplore_site.actions.runner import Outcome
from adaexplore_site.core.access import Role, can
from adaexplore_site.core.audit import NOTHING, ActionRefused, FieldsRefused
from adaexplore_site.core.models import AuditEntry
from memory.review.answers import answered, conflict, refusal, unchanged
from memory.review.history import said
from memory.review.queries import TABS, RuleFilter, query_of, rule_ids
from memory.rules import decisions, merges
from memory.rules.bulk import rules_bulk
from memory.rules.decisions import MAX_DEFER_DAYS, Card, reason_words
from memory.rules.desk import RuleChanged, claim_sound
from memory.rules.files import MAX_BYTES
from memory.rules.kinds import RULE, RULES, RuleEntries
from memory.rules.models import Rule
from memory.rules.scope_form import scope_asked
from memory.rules.services import rule_create
from memory.rules.transfer import rules_import
from memory.rules.undo import rule_undo

DEFER_DAYS = 7
TYPED = 50  # above so many, the person types the number
T = TypeVar("T")


def valid(check: Callable[..., T], *given: Any) -> T:
    """What the check returns. Raises ValidationError with what it refuses."""
    try:
        return check(*given)
    except ActionRefused as error:
        raise forms.ValidationError(str(error)) from error


class RuleNumberField(forms.IntegerField):
    """The number of a rule, with or without "#"."""

    def to_python(self, value: Any) -> int | None:
        return super().to_python(value.strip().removeprefix("#") if isinstance(value, str) else value)


class RevisionForm(ActionForm):
    revision = forms.IntegerField(
        min_value=0,
        widget=forms.HiddenInput,
        error_messages={"required": "Send the revision of the rule as you read it."},
        help_text="Of the rule as it was read; an older one is refused with the rule as it is now.",
    )


class ReasonForm(RevisionForm):
    reason = forms.CharField(required=False, help_text="Number of a reason.")
    own_reason = forms.CharField(required=False, help_text="Or in your own words.")

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        valid(reason_words, _reason(data))
        return data


class ClaimForm(ActionForm):
    text = forms.CharField(
        widget=forms.Textarea,
        error_messages={"required": "The rule has no words. Write in one sentence what to do or what not to do."},
        help_text="The rule in one sentence.",
    )

    def clean_text(self) -> str:
        return valid(claim_sound, self.cleaned_data["text"])


class ScopeForm(ActionForm):
    """`cleaned_data["scope"]` is a memory.rules.scopes.Scope; empty fields bind nothing."""

    family = forms.CharField(required=False, help_text="Operator family.")
    arch = forms.CharField(required=False, help_text="GPU architecture, such as sm_90.")
    triton = forms.CharField(required=False, help_text="Triton versions, such as >=3.4,<3.6.")

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        return {**data, "scope": valid(scope_asked, data)}


class RulesAction(Action):
    """What is done to rules. Its entry is undone while no later one on the same rule stands."""

    kind = RULE
    role = undo_role = Role.REVIEWER
    inverse = "rule.undo"
    noun: ClassVar[str] = ""  # what its undo says was undone; the end of `name` when empty

    def again(self, entry: AuditEntry) -> Result:
        return Result(said(entry), entry=entry)

    def standing(self, entry: AuditEntry, loaded: RuleEntries) -> Standing:
        return loaded.standing(entry)

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        return Result(said(rule_undo(action_id=entry.pk, **call.who)))

    def tells(self, page: str, user: User) -> bool:
        """Lists of rules show a reviewer their last action, with Undo."""
        return page.partition("?")[0] == reverse("rule-list") and can(user, Role.REVIEWER)

    def home(self, target: Rule | None) -> str:
        return reverse("rule-list")


class CardAction(RulesAction):
    """What is done to one rule as a card shows it. Scripts of the review queue get JSON."""

    takes = ("rule_id",)
    Form = RevisionForm
    route = "rule-act"
    pages: ClassVar[tuple[str, ...]] = ("rule-detail",)
    page_key = True

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            cls.sends = {"act": cls.name.removeprefix("rule.")}

    def locate(self, where: Mapping[str, Any]) -> Rule:
        rule = Rule.objects.select_related("current").filter(pk=where["rule_id"]).first()
        if rule is None:
            raise missing(f"rule {where['rule_id']}")
        return rule

    def run(self, target: Rule, data: dict[str, Any], call: Call) -> Result:
        entry = self.act(data, Card(rule_id=target.pk, revision=data["revision"], user=call.user, key=call.key))
        return Result(said(entry) if entry else NOTHING, entry=entry)

    def act(self, data: Mapping[str, Any], card: Card) -> AuditEntry | None:
        """Do it by its service; None where it is so already. Raises ActionRefused, RuleChanged."""
        raise NotImplementedError

    def panel(
        self,
        request: Any,
        target: Rule,
        *,
        outcome: Outcome | None = None,
        error: ActionRefused | None = None,
        **context: Any,
    ) -> Any:
        if isinstance(error, RuleChanged):
            return conflict(request, error.rule)
        return card_answer(request, target.pk, outcome, error)


def card_answer(request: Any, rule_id: int | None, outcome: Outcome | None, error: ActionRefused | None) -> Any:
    """JSON for a script; None for a form."""
    if not request.htmx:
        return None
    if error is not None:
        return refusal(request, error, rule_id)
    assert outcome is not None
    if outcome.entry is None:
        return unchanged(request, rule_id or 0)
    return answered(request, outcome.entry)


@register
class ApproveRule(CardAction):
    """Approve a rule: prompts of searches that are started from now on hold it."""

    name, label, noun = "rule.approve", "Approve the rule", "approval"
    key, pages = "a", ("rule-list", "rule-detail")

    def act(self, data: Mapping[str, Any], card: Card) -> AuditEntry | None:
        return decisions.rule_approve(now=timezone.now(), **card)

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return "Approved by its own author" if entry.after.get("own") else "Approved"


class EndRule(CardAction):
    """Reject or retire, with a reason."""

    Form = ReasonForm

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return f"{self.done}: {entry.after['reject_reason']}"


@register
class RejectRule(EndRule):
    """Reject a proposed rule: it is never used."""

    name, label, noun, done = "rule.reject", "Reject the rule", "rejection", "Rejected"
    key, pages = "r", ("rule-list", "rule-detail")

    def act(self, data: Mapping[str, Any], card: Card) -> AuditEntry | None:
        return decisions.rule_reject(reason=_reason(data), now=timezone.now(), **card)


@register
class RetireRule(EndRule):
    """Retire an approved rule. Searches that were started with it keep it."""

    name, label, noun, done = "rule.retire", "Retire the rule", "retirement", "Retired"

    def act(self, data: Mapping[str, Any], card: Card) -> AuditEntry | None:
        return decisions.rule_retire(reason=_reason(data), now=timezone.now(), **card)


@register
class RestoreRule(CardAction):
    """Propose a rejected or retired rule again."""

    name, label, done = "rule.restore", "Propose the rule again", "Proposed again"

    def act(self, data: Mapping[str, Any], card: Card) -> AuditEntry | None:
        return decisions.rule_restore(**card)


@register
class DeferRule(CardAction):
    """Leave a rule out of the review queue for some days."""

    class Form(RevisionForm):
        days = forms.IntegerField(
            min_value=1, max_value=MAX_DEFER_DAYS, required=False, help_text=f"{DEFER_DAYS} when left out."
        )

    name, label, noun = "rule.defer", "Defer the rule", "deferral"
    key, pages = "s", ("rule-list", "rule-detail")

    def act(self, data: Mapping[str, Any], card: Card) -> AuditEntry | None:
        return decisions.rule_defer(days=data["days"] or DEFER_DAYS, now=timezone.now(), **card)

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return f"Deferred by {_count(entry.after['days'], 'day')}" if "days" in entry.after else "Deferred"


class WordRule(CardAction):
    """What operators may do, too: it makes an approved rule a proposal again, unless a reviewer does it."""

    also = (Role.OPERATOR,)


@register
class EditRule(WordRule):
    """Write the words of a rule anew, as its next version."""

    class Form(RevisionForm, ClaimForm):
        why = forms.CharField(required=False, help_text="Why it was changed.")

    name, label, done = "rule.edit", "Edit the rule", "Edited"
    key, pages = "e", ("rule-list", "rule-detail")

    def act(self, data: Mapping[str, Any], card: Card) -> AuditEntry | None:
        return decisions.rule_edit(text=data["text"], why=data["why"], **card)


@register
class ScopeRule(WordRule):
    """Change where a rule holds, as its next version."""

    class Form(RevisionForm, ScopeForm):
        pass

    name, label, noun, done = "rule.scope", "Change the scope of the rule", "change of scope", "Given another scope"
    key, pages = "1 – 4", ("rule-list", "rule-detail")

    def act(self, data: Mapping[str, Any], card: Card) -> AuditEntry | None:
        return decisions.rule_scope(scope=data["scope"], **card)


@register
class RollBackRule(WordRule):
    """Make an old version of a rule its next one."""

    class Form(RevisionForm):
        number = forms.IntegerField(help_text="Of the version.")

    name, label, noun, done = "rule.rollback", "Roll the rule back", "roll back", "Rolled back"

    def act(self, data: Mapping[str, Any], card: Card) -> AuditEntry | None:
        return decisions.rule_rollback(number=data["number"], **card)


@register
class MergeRule(CardAction):
    """Merge a rule into another one, which gets its sightings."""

    class Form(RevisionForm):
        into = RuleNumberField(help_text="Number of the other rule.")

    name, label = "rule.merge", "Merge the rule into another"
    key, pages = "m", ("rule-list", "rule-detail")

    def act(self, data: Mapping[str, Any], card: Card) -> AuditEntry | None:
        return merges.rule_merge(into=data["into"], **card)

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return f"Merged into rule {entry.after['into']}"


@register
class UnmergeRule(CardAction):
    """Separate a merged rule from the other one, with the sightings that it brought."""

    name, label, noun = "rule.unmerge", "Part the rule again", "separation"

    def act(self, data: Mapping[str, Any], card: Card) -> AuditEntry | None:
        return merges.rule_unmerge(**card)

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return f"Separated from rule {entry.after['from']} again"


@register
class SplitRule(CardAction):
    """Split sightings off to a new proposed rule."""

    class Form(RevisionForm, ClaimForm):
        failure = NumberListField(
            error_messages={"required": "Choose at least one of the rule's own sightings for the new rule."},
            help_text="Sightings for the new rule.",
        )

    name, label = "rule.split", "Split the rule"
    key, pages = "v", ("rule-list", "rule-detail")

    def act(self, data: Mapping[str, Any], card: Card) -> AuditEntry | None:
        return merges.rule_split(failures=data["failure"], text=data["text"], **card)

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return f"Split: rule {entry.after['new']} has {_count(len(entry.after['moved']), 'sighting')}"


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
        entry = rule_create(text=data["text"], scope=data["scope"], **call.who)
        return Result(said(entry), location=reverse("rule-detail", args=[entry.object_id]), entry=entry)

    def again(self, entry: AuditEntry) -> Result:
        return replace(Action.again(self, entry), message=said(entry), entry=entry)


@register
class ImportRules(RulesAction):
    """Import a file of `rule||count` lines as proposed rules."""

    class Form(ActionForm):
        file = forms.FileField(
            error_messages={
                "required": "No file came with the form. Choose a text file with one rule||count a line.",
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
    route = "rule-import"
    pages = ("rule-list",)

    def run(self, target: None, data: dict[str, Any], call: Call) -> Result:
        sent = data["file"]
        try:
            entry = rules_import(data=sent.read(), name=sent.name or "upload", **call.who)
        except ActionRefused as error:
            raise FieldsRefused({"file": str(error)}) from error
        return Result(said(entry), entry=entry)

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return f"{_count(len(entry.after['made']), 'rule')} imported, {entry.after['known']} known already"


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
        expected = data["expected"] if data["typed"] is None else data["typed"]
        if expected > TYPED and data["typed"] is None:
            raise ActionRefused(f"Type {expected} to confirm: it changes more than {TYPED} rules.")
        chosen, now = _filter(data), timezone.now()
        entry = rules_bulk(
            act=data["act"],
            rule_ids=rule_ids(chosen, now),
            expected=expected,
            seen=data["seen"],
            now=now,
            reason=_reason(data),
            **call.who,
        )
        query = query_of(chosen)
        return Result(said(entry), location=reverse("rule-list") + (f"?{query}" if query else ""), entry=entry)

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        act = entry.after["act"]
        return f"{_count(entry.after['count'], 'rule')} {self.past.get(act, act)} at once"


@register
class UndoRules(Action):
    """Undo an action on rules, while no later one stands."""

    class Form(ActionForm):
        action = forms.IntegerField(widget=forms.HiddenInput, help_text="Number of the entry in the activity log.")

    kind = RULE
    name, label = "rule.undo", "Undo the last act on rules"
    role = Role.REVIEWER
    route = "rule-undo"
    pages, key, page_key = ("rule-list",), "u", True
    irreversible = "do the action again instead"

    def run(self, target: None, data: dict[str, Any], call: Call) -> Result:
        entry = rule_undo(action_id=data["action"], **call.who)
        gone = entry.object_type == "rule" and not Rule.objects.filter(pk=entry.object_id).exists()
        return Result(said(entry), location=reverse("rule-list") if gone else "", entry=entry)

    def again(self, entry: AuditEntry) -> Result:
        return Result(said(entry), entry=entry)

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        verb = entry.after["verb"]
        noun = getattr(registry.verb(verb), "noun", "") or verb.split(".")[-1]
        left = len(entry.after.get("left", ()))
        return f"Undone: {noun}" + (f". {_count(left, 'rule')} changed since stay as they are" if left else "")

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
        return card_answer(request, None, outcome, error)


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
        return f"{_count(entry.after['count'], 'rule')} exported"


def _reason(data: Mapping[str, Any]) -> str:
    """A reason's number from its button, or the person's own words."""
    return str(data.get("own_reason") or data.get("reason") or "")


def _filter(data: Mapping[str, Any]) -> RuleFilter:
    return RuleFilter(
        tab=data["tab"] if data["tab"] in TABS else "queue",
        q=data["q"][:80],
        origin=data["origin"],
        scope=data["scope"],
        least=data["least"] or 0,
        flagged=data["flagged"],
        adapt=data["adapt"] or 0,
    )


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
