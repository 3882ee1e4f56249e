"""Actions on one rule: decide on it, edit it, merge and split it.

proposed -> approved or rejected; approved -> retired; restored ones are proposed again. A rejected or retired rule
keeps its text: it is restored before it is edited, so that no edit goes around a reviewer's decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeVar

from django import forms
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone

from adaexplore_site.actions.action import Action, ActionForm, Call, Result, Standing, missing
from adaexplore_site.actions.fields import NumberListField
from adaexplore_site.actions.registry import register
from adaexplore_site.actions.runner import Outcome
from adaexplore_site.core.access import Role, can
from adaexplore_site.core.audit import NOTHING, ActionRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.text import storable_text
from memory.prompting.scopes import Scope, scope_asked
from memory.rules.history import RULE, UNDO_VERB, RuleEntries, said, stands_at, undone
from memory.rules.models import REASONS, Rule, RuleVersion
from memory.rules.services import (
    RuleChanged,
    TextTaken,
    claim_checked,
    rule_load,
    rule_new,
    rule_save,
    rules_locked,
    rules_with,
    sightings_move,
    sightings_return,
    text_free,
    version_add,
)
from memory.rules.views import card_answer

CLOSED = (Rule.State.REJECTED, Rule.State.RETIRED)  # a reviewer's decision, which only a reviewer opens again
DEFER_DAYS, MAX_DEFER_DAYS = 7, 365
REASON_CHARS = 200
MAX_SPLIT = 5000
Extra = dict[str, Any]
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
        raise ActionRefused(f"Give a reason: a number from 1 to {len(REASONS)}, or your own words.")
    if len(reason) > REASON_CHARS:
        raise ActionRefused(f"The reason has {len(reason)} characters; the limit is {REASON_CHARS}.")
    return reason


class RuleNumberField(forms.IntegerField):
    """The number of a rule, with or without "#"."""

    def to_python(self, value: Any) -> int | None:
        return super().to_python(value.strip().removeprefix("#") if isinstance(value, str) else value)


class RevisionForm(ActionForm):
    revision = forms.IntegerField(
        min_value=0,
        widget=forms.HiddenInput,
        error_messages={"required": "Send the revision of the rule as you read it."},
        help_text="Revision of the rule that you read; an outdated one is refused with the current rule.",
    )


class ReasonForm(RevisionForm):
    reason = forms.CharField(required=False, help_text="Number of a reason.")
    own_reason = forms.CharField(required=False, help_text="Or in your own words.")

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        return {**data, "reason": valid(reason_text, data)}


class ClaimForm(ActionForm):
    text = forms.CharField(
        widget=forms.Textarea,
        error_messages={"required": "The rule has no text. Write in one sentence what to do or what not to do."},
        help_text="The rule in one sentence.",
    )

    def clean_text(self) -> str:
        return valid(claim_checked, self.cleaned_data["text"])


class ScopeForm(ActionForm):
    """`cleaned_data["scope"]` is a memory.prompting.scopes.Scope; empty fields bind nothing."""

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
    inverse = UNDO_VERB
    noun: ClassVar[str] = ""  # what its undo says was undone; the end of `name` when empty

    def again(self, entry: AuditEntry) -> Result:
        return Result(said(entry), entry=entry)

    def standing(self, entry: AuditEntry, loaded: RuleEntries) -> Standing:
        return loaded.standing(entry)

    def undo(self, entry: AuditEntry, call: Call) -> Result:
        with rules_locked():
            if done := action_done(key=call.key, verb=UNDO_VERB):
                return Result(said(done), entry=done)
            if undone(entry):
                raise ActionRefused("This action was undone already.")
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

    def home(self, target: Rule | None) -> str:
        return reverse("rule-list")


class RuleAction(RulesAction):
    """What is done to one rule as a person read it. Scripts of the review queue get JSON."""

    takes = ("rule_id",)
    Form = RevisionForm
    route, path = "rule-act", "rules/<int:rule_id>/act"
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
        """Change the rule, count the action and write it down. A key that was used gives the first entry."""
        with rules_locked():
            if done := action_done(key=call.key, verb=self.name):
                return self.again(done)
            rule = rule_load(target.pk)
            if rule.revision != data["revision"]:
                raise RuleChanged(rule)
            before = snapshot(rule)
            extra = self.change(rule, data, call.user, timezone.now())
            if extra is None:
                return Result(NOTHING)
            rule_save(rule)
            after = {**snapshot(rule), **extra}
            entry = action_on(verb=self.name, on=("rule", rule.pk), before=before, after=after, **call.who)
        return Result(said(entry), entry=entry)

    def change(self, rule: Rule, data: Mapping[str, Any], user: User | None, now: datetime) -> Extra | None:
        """Change the rule's fields; what it returns goes into the entry. None where nothing has to change. Raises
        ActionRefused."""
        raise NotImplementedError

    def restore(self, entry: AuditEntry, call: Call) -> list[int]:
        rule = untouched(int(entry.object_id), entry.after["revision"])
        if entry.before["current"] != rule.current_id:
            old = RuleVersion.objects.get(pk=entry.before["current"])
            text_free(rule, old.text, old.scope)
        put_back(rule, entry.before)
        rule_save(rule)
        return []

    def panel(
        self,
        request: Any,
        target: Rule,
        *,
        outcome: Outcome | None = None,
        error: ActionRefused | None = None,
        **context: Any,
    ) -> Any:
        return card_answer(request, target.pk, outcome.entry if outcome else None, error)


def snapshot(rule: Rule) -> dict[str, Any]:
    """What actions change, as JSON: `put_back` restores it."""
    return {
        "state": rule.state,
        "current": rule.current_id,
        "reject_reason": rule.reject_reason,
        "recheck": rule.recheck,
        "deferred_until": rule.deferred_until.isoformat() if rule.deferred_until else None,
        "decided_by": rule.decided_by_id,
        "decided_at": rule.decided_at.isoformat() if rule.decided_at else None,
        "merged_into": rule.merged_into_id,
        "revision": rule.revision,
    }


def put_back(rule: Rule, old: Mapping[str, Any]) -> None:
    """Set the fields of a snapshot; the revision goes on counting."""
    for name in ("state", "reject_reason", "recheck"):
        setattr(rule, name, old[name])
    for name in ("current", "decided_by", "merged_into"):
        setattr(rule, f"{name}_id", old[name])
    for name in ("deferred_until", "decided_at"):
        setattr(rule, name, datetime.fromisoformat(old[name]) if old[name] else None)


def untouched(rule_id: int, revision: int) -> Rule:
    """The rule, as it was after that revision. Raises ActionRefused."""
    rule = rule_load(rule_id)
    if revision not in stands_at([rule])[rule.pk]:
        raise ActionRefused(f"Rule {rule_id} was changed after this action. Undo what came later first.")
    return rule


def back_at(entry: AuditEntry) -> Mapping[str, int]:
    """Of the rule of an entry that was just undone: its revision now, and the one that it is back at."""
    rule = Rule.objects.filter(pk=entry.object_id).first() if entry.object_type == "rule" else None
    return {"revision": rule.revision, "back_to": entry.before["revision"]} if rule is not None else {}


def count(number: int, noun: str) -> str:
    """ "1 rule", "2 rules"."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _decide(rule: Rule, state: str, user: User | None, now: datetime, reason: str = "") -> None:
    """A person has decided: state, who and when. A doubt is settled with it."""
    rule.state, rule.recheck, rule.deferred_until, rule.reject_reason = state, "", None, reason
    rule.decided_by, rule.decided_at = user, now


def _reopen(rule: Rule) -> None:
    rule.state, rule.reject_reason, rule.deferred_until = Rule.State.PROPOSED, "", None
    rule.decided_by, rule.decided_at = None, None


def _not_in(rule: Rule, wanted: str, why: str) -> ActionRefused:
    return ActionRefused(f"Rule {rule.pk} is {rule.state} and cannot be {wanted}. {why}.")


@register
class ApproveRule(RuleAction):
    """Approve a rule: prompts of searches that are started from now on hold it."""

    name, label, noun = "rule.approve", "Approve the rule", "approval"
    key, pages = "a", ("rule-list", "rule-detail")

    def change(self, rule: Rule, data: Mapping[str, Any], user: User | None, now: datetime) -> Extra | None:
        """One's own rule may be approved; the entry says so. An approved rule in doubt is confirmed."""
        if rule.state == Rule.State.APPROVED and not rule.recheck:
            return None
        if rule.state not in (Rule.State.PROPOSED, Rule.State.APPROVED):
            raise _not_in(rule, "approved", "Restore it first")
        if rule.fault:
            raise ActionRefused(f"Rule {rule.pk} must be edited before it can be approved. {rule.fault}")
        _decide(rule, Rule.State.APPROVED, user, now)
        return {"own": rule.written_by(user)}

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return "Approved by its own author" if entry.after.get("own") else "Approved"


class EndRule(RuleAction):
    """Reject or retire, with a reason."""

    Form = ReasonForm
    state: ClassVar[Rule.State]
    before: ClassVar[Rule.State]

    def change(self, rule: Rule, data: Mapping[str, Any], user: User | None, now: datetime) -> Extra | None:
        if (rule.state, rule.reject_reason) == (self.state, data["reason"]):
            return None
        if rule.state != self.before:
            article = "an" if self.before == Rule.State.APPROVED else "a"
            raise _not_in(rule, self.state, f"Only {article} {self.before} rule is {self.state}")
        _decide(rule, self.state, user, now, data["reason"])
        return {}

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return f"{self.state.capitalize()}: {entry.after['reject_reason']}"


@register
class RejectRule(EndRule):
    """Reject a proposed rule: it is never used."""

    name, label, noun = "rule.reject", "Reject the rule", "rejection"
    state, before = Rule.State.REJECTED, Rule.State.PROPOSED
    key, pages = "r", ("rule-list", "rule-detail")


@register
class RetireRule(EndRule):
    """Retire an approved rule. Searches that were started with it keep it."""

    name, label, noun = "rule.retire", "Retire the rule", "retirement"
    state, before = Rule.State.RETIRED, Rule.State.APPROVED


@register
class RestoreRule(RuleAction):
    """Propose a rejected or retired rule again."""

    name, label, done = "rule.restore", "Propose the rule again", "Proposed again"

    def change(self, rule: Rule, data: Mapping[str, Any], user: User | None, now: datetime) -> Extra | None:
        if rule.state == Rule.State.PROPOSED:
            return None
        if rule.state not in CLOSED:
            raise _not_in(rule, "restored", "Only a rejected or retired rule is restored")
        _reopen(rule)
        return {}


@register
class DeferRule(RuleAction):
    """Leave a rule out of the review queue for some days."""

    class Form(RevisionForm):
        days = forms.IntegerField(
            min_value=1, max_value=MAX_DEFER_DAYS, required=False, help_text=f"{DEFER_DAYS} when left out."
        )

    name, label, noun = "rule.defer", "Defer the rule", "deferral"
    key, pages = "s", ("rule-list", "rule-detail")

    def change(self, rule: Rule, data: Mapping[str, Any], user: User | None, now: datetime) -> Extra | None:
        if rule.state != Rule.State.PROPOSED and not rule.recheck:
            raise _not_in(rule, "deferred", "It does not wait for a review")
        days = data["days"] or DEFER_DAYS
        rule.deferred_until = now + timedelta(days=days)
        return {"days": days}

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return f"Deferred by {count(entry.after['days'], 'day')}" if "days" in entry.after else "Deferred"


class EditAction(RuleAction):
    """A next version of a rule. Operators may write one, too: it makes an approved rule a proposal again."""

    also = (Role.OPERATOR,)

    def wanted(self, rule: Rule, data: Mapping[str, Any]) -> tuple[str, Scope, str]:
        """Text, scope and why of the next version. Raises ActionRefused."""
        raise NotImplementedError

    def change(self, rule: Rule, data: Mapping[str, Any], user: User | None, now: datetime) -> Extra | None:
        text, scope, why = self.wanted(rule, data)
        if (text, scope) == (rule.version.text, rule.version.scope):
            return None
        if text != rule.version.text:
            text = claim_checked(text)
        if rule.state == Rule.State.MERGED:
            raise _not_in(rule, "edited", f"It was merged into rule {rule.merged_into_id}")
        if rule.state in CLOSED:
            raise _not_in(rule, "edited", "A reviewer must propose it again first")
        text_free(rule, text, scope)
        version = version_add(rule, text, scope, user, storable_text(why.strip()))
        keeps = user is not None and can(user, Role.REVIEWER) and not rule.fault
        if rule.state == Rule.State.APPROVED and not keeps:
            _reopen(rule)
        return {"version": version.number}


@register
class EditRule(EditAction):
    """Edit the text of a rule, as its next version."""

    class Form(RevisionForm, ClaimForm):
        why = forms.CharField(required=False, help_text="Why it was changed.")

    name, label, done = "rule.edit", "Edit the rule", "Edited"
    key, pages = "e", ("rule-list", "rule-detail")

    def wanted(self, rule: Rule, data: Mapping[str, Any]) -> tuple[str, Scope, str]:
        return data["text"], rule.version.scope, data["why"]


@register
class ScopeRule(EditAction):
    """Change where a rule holds, as its next version."""

    class Form(RevisionForm, ScopeForm):
        pass

    name, label, noun, done = "rule.scope", "Change the scope of the rule", "change of scope", "Given another scope"
    key, pages = "1 – 4", ("rule-list", "rule-detail")

    def wanted(self, rule: Rule, data: Mapping[str, Any]) -> tuple[str, Scope, str]:
        return rule.version.text, data["scope"], ""


@register
class RollBackRule(EditAction):
    """Make an old version of a rule its next one."""

    class Form(RevisionForm):
        number = forms.IntegerField(help_text="Of the version.")

    name, label, noun, done = "rule.rollback", "Roll the rule back", "roll back", "Rolled back"

    def wanted(self, rule: Rule, data: Mapping[str, Any]) -> tuple[str, Scope, str]:
        old = rule.versions.filter(number=data["number"]).first()
        if old is None:
            raise ActionRefused(f"Rule {rule.pk} has no version {data['number']}.")
        return old.text, old.scope, f"back to version {old.number}"


class PairAction(RuleAction):
    """Makes two rules one, or separates them again. The other rule counts the action, too: see `RulePart`."""

    part: ClassVar[str]  # verb of the other rule's entry

    def touch(self, other: Rule, user: User | None, after: dict[str, Any]) -> Extra:
        """Count the action on the other rule and write it into its history."""
        before = snapshot(other)
        rule_save(other)
        after = {**snapshot(other), **after}
        action_on(verb=self.part, on=("rule", other.pk), user=user, key=None, before=before, after=after)
        return {"rule": other.pk, "before": before, "revision": other.revision}

    def restore(self, entry: AuditEntry, call: Call) -> list[int]:
        rule, part = untouched(int(entry.object_id), entry.after["revision"]), entry.after["other"]
        other = untouched(part["rule"], part["revision"])
        self.give_back(rule, other, entry.after["moved"])
        put_back(rule, entry.before)
        rule_save(rule)
        put_back(other, part["before"])
        rule_save(other)
        done = AuditEntry.objects.filter(verb=self.part, object_type="rule", object_id=str(other.pk))
        row = done.get(after__revision=part["revision"])
        after = {"undoes": row.pk, "verb": row.verb, **back_at(row)}
        action_on(verb=UNDO_VERB, on=("rule", other.pk), user=call.user, key=None, after=after)
        return []

    def give_back(self, rule: Rule, other: Rule, moved: list[list[int | None]]) -> None:
        """Undo the move of sightings."""
        raise NotImplementedError


@register
class MergeRule(PairAction):
    """Merge a rule into another one, which gets its sightings."""

    class Form(RevisionForm):
        into = RuleNumberField(help_text="Number of the other rule.")

    name, label, part = "rule.merge", "Merge the rule into another", "rule.take_in"
    key, pages = "m", ("rule-list", "rule-detail")

    def change(self, rule: Rule, data: Mapping[str, Any], user: User | None, now: datetime) -> Extra | None:
        into = data["into"]
        if into == rule.pk:
            raise ActionRefused("A rule cannot be merged into itself. Choose another one.")
        if rule.state == Rule.State.MERGED and rule.merged_into_id == into:
            return None
        if rule.state == Rule.State.MERGED:
            raise ActionRefused(f"Rule {rule.pk} was merged into rule {rule.merged_into_id} already.")
        other = rule_load(into)
        if other.state == Rule.State.MERGED:
            raise ActionRefused(f"Rule {into} was merged into rule {other.successor.pk}. Choose that one.")
        moved = sightings_move(rule, other)
        rule.state, rule.merged_into, rule.recheck, rule.deferred_until = Rule.State.MERGED, other, "", None
        return {"into": into, "moved": moved, "other": self.touch(other, user, {"from": rule.pk})}

    def give_back(self, rule: Rule, other: Rule, moved: list[list[int | None]]) -> None:
        sightings_return(other, rule, moved)

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return f"Merged into rule {entry.after['into']}"


@register
class UnmergeRule(PairAction):
    """Separate a merged rule from the other one, with the sightings that it brought."""

    name, label, noun, part = "rule.unmerge", "Separate the rule again", "separation", "rule.give_back"

    def change(self, rule: Rule, data: Mapping[str, Any], user: User | None, now: datetime) -> Extra | None:
        """It is as it was before the merge, and gets back the sightings that it brought, wherever they are now."""
        if rule.state != Rule.State.MERGED:
            return None
        other = rule_load(rule.successor.pk)
        merge = AuditEntry.objects.filter(verb="rule.merge", object_type="rule", object_id=str(rule.pk)).first()
        moved = sightings_move(other, rule, [pair[0] for pair in merge.after.get("moved", [])] if merge else [])
        rule.state, rule.merged_into = (merge.before if merge else {}).get("state", Rule.State.PROPOSED), None
        return {"from": other.pk, "moved": moved, "other": self.touch(other, user, {"to": rule.pk})}

    def give_back(self, rule: Rule, other: Rule, moved: list[list[int | None]]) -> None:
        sightings_return(rule, other, moved)
        sightings_move(rule, other)  # what came meanwhile

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return f"Separated from rule {entry.after['from']} again"


@register
class SplitRule(RuleAction):
    """Split sightings off to a new proposed rule with its own text and the same scope."""

    class Form(RevisionForm, ClaimForm):
        failure = NumberListField(
            error_messages={"required": "Choose at least one of the rule's own sightings for the new rule."},
            help_text="Sightings for the new rule.",
        )

    name, label = "rule.split", "Split the rule"
    key, pages = "v", ("rule-list", "rule-detail")

    def change(self, rule: Rule, data: Mapping[str, Any], user: User | None, now: datetime) -> Extra | None:
        text, chosen = data["text"], sorted(set(data["failure"]))
        if rule.state == Rule.State.MERGED:
            raise ActionRefused(f"Rule {rule.pk} was merged into rule {rule.merged_into_id}. Split that one.")
        own = set(rule.sightings.values_list("failure_id", flat=True))
        if not own.issuperset(chosen):
            raise ActionRefused("Choose at least one of the rule's own sightings for the new rule.")
        if len(chosen) == len(own):
            raise ActionRefused("All sightings were chosen: nothing would be split. Edit the rule instead.")
        if len(chosen) > MAX_SPLIT:
            raise ActionRefused(f"At most {MAX_SPLIT} sightings are split off at once.")
        if same := rules_with(text):
            raise TextTaken(same[0].pk, "Write what sets the new rule apart.")
        why = f"split from {rule.pk}"
        new = rule_new(text=text, scope=rule.version.scope, origin=Rule.Origin.PERSON, user=user, why=why)
        moved = sightings_move(rule, new, chosen)
        after = {**snapshot(new), "text": text, "split_from": rule.pk}
        action_on(verb="rule.split_off", on=("rule", new.pk), user=user, key=None, after=after)
        return {"new": new.pk, "moved": moved}

    def restore(self, entry: AuditEntry, call: Call) -> list[int]:
        """The new rule becomes part of the old one again, with whatever it has seen since."""
        rule = untouched(int(entry.object_id), entry.after["revision"])
        new = untouched(entry.after["new"], 0)
        sightings_return(new, rule, entry.after["moved"])
        sightings_move(new, rule)
        new.state, new.merged_into = Rule.State.MERGED, rule
        rule_save(new)
        put_back(rule, entry.before)
        rule_save(rule)
        return []

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return f"Split: rule {entry.after['new']} has {count(len(entry.after['moved']), 'sighting')}"
