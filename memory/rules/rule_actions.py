"""Actions on one rule: decide on it, edit it, merge and split it.

Which of them each state allows is in `memory.rules.models.STATES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from django import forms
from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.actions.action import ActionForm, Call, Result, missing
from adaexplore_site.actions.fields import NumberListField
from adaexplore_site.actions.registry import register
from adaexplore_site.core.access import Role, can
from adaexplore_site.core.audit import NOTHING, ActionRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.text import storable_text
from memory.prompting.scopes import Scope
from memory.rules.actions import (
    DEFER_DAYS,
    CardAction,
    ClaimForm,
    RulesAction,
    ScopeForm,
    back_at,
    put_back,
    reason_text,
    snapshot,
    untouched,
    valid,
)
from memory.rules.models import Rule, RuleVersion
from memory.rules.queries import UNDO_VERB, said
from memory.rules.services import (
    RuleChanged,
    claim_checked,
    rule_link,
    rule_load,
    rule_new,
    rule_save,
    rules_locked,
    rules_with,
    sightings_move,
    sightings_return,
    text_free,
    text_taken,
    version_add,
)

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MAX_DEFER_DAYS = 365
MAX_SPLIT = 5000
Extra = dict[str, Any]


class RevisionForm(ActionForm):
    revision = forms.IntegerField(
        min_value=0,
        widget=forms.HiddenInput,
        error_messages={"required": _("Send the revision of the rule as you read it.")},
        help_text=_("Revision of the rule that you read; an outdated one is refused with the current rule."),
    )


class ReasonForm(RevisionForm):
    reason = forms.CharField(required=False, help_text=_("Number of a reason."))
    own_reason = forms.CharField(required=False, help_text=_("Or in your own words."))

    def clean(self) -> dict[str, Any]:
        data = super().clean() or {}
        return {**data, "reason": valid(reason_text, data)}


class RuleAction(CardAction, RulesAction):
    """What is done to one rule as a person read it."""

    takes = ("rule_id",)
    Form = RevisionForm
    route, path = "rule-act", "rules/<int:rule_id>/act"
    pages: ClassVar[tuple[str, ...]] = ("rule-detail",)
    act: ClassVar[str]  # what its forms send
    refused: ClassVar[StrOrPromise]  # where the state of the rule does not allow it
    refused_merged: ClassVar[StrOrPromise] = ""  # the same for a merged rule; `refused` when empty

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            cls.act = cls.name.removeprefix("rule.")
            cls.sends = {"act": cls.act}

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

    def check(self, rule: Rule) -> None:
        """Raise ActionRefused where the state of the rule does not allow this."""
        if self.act in rule.offers:
            return
        merged = rule.state == Rule.State.MERGED
        text = str((merged and self.refused_merged) or self.refused)
        facts = {"rule": rule.pk, "state": rule.info.label, "into": rule.merged_into_id}
        raise ActionRefused(text % facts, see=rule_link(rule.successor.pk) if merged else None)

    def restore(self, entry: AuditEntry, call: Call) -> list[int]:
        rule = untouched(int(entry.object_id), entry.after["revision"])
        if entry.before["current"] != rule.current_id:
            old = RuleVersion.objects.get(pk=entry.before["current"])
            text_free(rule, old.text, old.scope)
        put_back(rule, entry.before)
        rule_save(rule)
        return []


def _decide(rule: Rule, state: str, user: User | None, now: datetime, reason: str = "") -> None:
    """A person has decided: state, who and when. A doubt is settled with it."""
    rule.state, rule.recheck, rule.deferred_until, rule.reject_reason = state, "", None, reason
    rule.decided_by, rule.decided_at = user, now


def _reopen(rule: Rule) -> None:
    rule.state, rule.reject_reason, rule.deferred_until = Rule.State.PROPOSED, "", None
    rule.decided_by, rule.decided_at = None, None


@register
class ApproveRule(RuleAction):
    """Approve a rule: prompts of searches that are started from now on hold it."""

    name, label, noun = "rule.approve", _("Approve the rule"), _("approval")
    refused = _("Rule %(rule)d is %(state)s and cannot be approved. Restore it first.")
    key, pages = "a", ("rule-list", "rule-detail")

    def change(self, rule: Rule, data: Mapping[str, Any], user: User | None, now: datetime) -> Extra | None:
        """One's own rule may be approved; the entry says so. An approved rule in doubt is confirmed."""
        if rule.state == Rule.State.APPROVED and not rule.recheck:
            return None
        self.check(rule)
        if rule.fault:
            text = gettext("Rule %(rule)d must be edited before it can be approved. %(fault)s")
            raise ActionRefused(text % {"rule": rule.pk, "fault": rule.fault})
        _decide(rule, Rule.State.APPROVED, user, now)
        return {"own": rule.written_by(user)}

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return gettext("Approved by its own author") if entry.after.get("own") else gettext("Approved")


class EndRule(RuleAction):
    """Reject or retire, with a reason."""

    Form = ReasonForm
    state: ClassVar[Rule.State]
    ended: ClassVar[StrOrPromise]  # how its entry reads

    def change(self, rule: Rule, data: Mapping[str, Any], user: User | None, now: datetime) -> Extra | None:
        if (rule.state, rule.reject_reason) == (self.state, data["reason"]):
            return None
        self.check(rule)
        _decide(rule, self.state, user, now, data["reason"])
        return {}

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return self.ended % {"reason": entry.after["reject_reason"]}


@register
class RejectRule(EndRule):
    """Reject a proposed rule: it is never used."""

    name, label, noun = "rule.reject", _("Reject the rule"), _("rejection")
    state, ended = Rule.State.REJECTED, _("Rejected: %(reason)s")
    refused = _("Rule %(rule)d is %(state)s and cannot be rejected. Only a proposed rule is rejected.")
    key, pages = "r", ("rule-list", "rule-detail")


@register
class RetireRule(EndRule):
    """Retire an approved rule. Searches that were started with it keep it."""

    name, label, noun = "rule.retire", _("Retire the rule"), _("retirement")
    state, ended = Rule.State.RETIRED, _("Retired: %(reason)s")
    refused = _("Rule %(rule)d is %(state)s and cannot be retired. Only an approved rule is retired.")


@register
class RestoreRule(RuleAction):
    """Propose a rejected or retired rule again."""

    name, label, done = "rule.restore", _("Propose the rule again"), _("Proposed again")
    refused = _("Rule %(rule)d is %(state)s and cannot be restored. Only a rejected or retired rule is restored.")

    def change(self, rule: Rule, data: Mapping[str, Any], user: User | None, now: datetime) -> Extra | None:
        if rule.state == Rule.State.PROPOSED:
            return None
        self.check(rule)
        _reopen(rule)
        return {}


@register
class DeferRule(RuleAction):
    """Leave a rule out of the review queue for some days."""

    class Form(RevisionForm):
        days = forms.IntegerField(
            min_value=1,
            max_value=MAX_DEFER_DAYS,
            required=False,
            help_text=format_lazy(_("{days} when left out."), days=DEFER_DAYS),
        )

    name, label, noun = "rule.defer", _("Defer the rule"), _("deferral")
    refused = _("Rule %(rule)d is %(state)s and cannot be deferred. It does not wait for a review.")
    key, pages = "s", ("rule-list", "rule-detail")

    def change(self, rule: Rule, data: Mapping[str, Any], user: User | None, now: datetime) -> Extra | None:
        self.check(rule)
        days = data["days"] or DEFER_DAYS
        rule.deferred_until = now + timedelta(days=days)
        return {"days": days}

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        if "days" not in entry.after:
            return gettext("Deferred")
        days = entry.after["days"]
        return ngettext("Deferred by %(days)d day", "Deferred by %(days)d days", days) % {"days": days}


class EditAction(RuleAction):
    """A next version of a rule. Operators may write one, too: it makes an approved rule a proposal again."""

    also = (Role.OPERATOR,)
    refused = _("Rule %(rule)d is %(state)s and cannot be edited. A reviewer must propose it again first.")
    refused_merged = _("Rule %(rule)d is %(state)s and cannot be edited. It was merged into rule %(into)d.")

    def wanted(self, rule: Rule, data: Mapping[str, Any]) -> tuple[str, Scope, str]:
        """Text, scope and why of the next version. Raises ActionRefused."""
        raise NotImplementedError

    def change(self, rule: Rule, data: Mapping[str, Any], user: User | None, now: datetime) -> Extra | None:
        text, scope, why = self.wanted(rule, data)
        if (text, scope) == (rule.version.text, rule.version.scope):
            return None
        self.check(rule)
        if text != rule.version.text:
            text = claim_checked(text)
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
        why = forms.CharField(required=False, help_text=_("Why it was changed."))

    name, label, done = "rule.edit", _("Edit the rule"), _("Edited")
    key, pages = "e", ("rule-list", "rule-detail")

    def wanted(self, rule: Rule, data: Mapping[str, Any]) -> tuple[str, Scope, str]:
        return data["text"], rule.version.scope, data["why"]


@register
class ScopeRule(EditAction):
    """Change where a rule holds, as its next version."""

    class Form(RevisionForm, ScopeForm):
        pass

    name, label = "rule.scope", _("Change the scope of the rule")
    noun, done = _("change of scope"), _("Given another scope")
    key, pages = "1 – 4", ("rule-list", "rule-detail")

    def wanted(self, rule: Rule, data: Mapping[str, Any]) -> tuple[str, Scope, str]:
        return rule.version.text, data["scope"], ""


@register
class RollBackRule(EditAction):
    """Make an old version of a rule its next one."""

    class Form(RevisionForm):
        number = forms.IntegerField(help_text=_("Of the version."))

    name, label, noun, done = "rule.rollback", _("Roll the rule back"), _("roll back"), _("Rolled back")

    def wanted(self, rule: Rule, data: Mapping[str, Any]) -> tuple[str, Scope, str]:
        old = rule.versions.filter(number=data["number"]).first()
        if old is None:
            text = gettext("Rule %(rule)d has no version %(version)d.")
            raise ActionRefused(text % {"rule": rule.pk, "version": data["number"]})
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


class RuleNumberField(forms.IntegerField):
    """The number of a rule, with or without "#"."""

    def to_python(self, value: Any) -> int | None:
        return super().to_python(value.strip().removeprefix("#") if isinstance(value, str) else value)


@register
class MergeRule(PairAction):
    """Merge a rule into another one, which gets its sightings."""

    class Form(RevisionForm):
        into = RuleNumberField(help_text=_("Number of the other rule."))

    name, label, part = "rule.merge", _("Merge the rule into another"), "rule.take_in"
    refused = _("Rule %(rule)d was merged into rule %(into)d already.")
    key, pages = "m", ("rule-list", "rule-detail")

    def change(self, rule: Rule, data: Mapping[str, Any], user: User | None, now: datetime) -> Extra | None:
        into = data["into"]
        if into == rule.pk:
            raise ActionRefused(gettext("A rule cannot be merged into itself. Choose another one."))
        if rule.state == Rule.State.MERGED and rule.merged_into_id == into:
            return None
        self.check(rule)
        other = rule_load(into)
        if other.state == Rule.State.MERGED:
            text = gettext("Rule %(rule)d was merged into rule %(into)d. Choose that one.")
            to = other.successor.pk
            raise ActionRefused(text % {"rule": into, "into": to}, see=rule_link(to))
        moved = sightings_move(rule, other)
        rule.state, rule.merged_into, rule.recheck, rule.deferred_until = Rule.State.MERGED, other, "", None
        return {"into": into, "moved": moved, "other": self.touch(other, user, {"from": rule.pk})}

    def give_back(self, rule: Rule, other: Rule, moved: list[list[int | None]]) -> None:
        sightings_return(other, rule, moved)

    def describe(self, entry: AuditEntry, loaded: Any) -> str:
        return gettext("Merged into rule %(rule)d") % {"rule": entry.after["into"]}


@register
class UnmergeRule(PairAction):
    """Separate a merged rule from the other one, with the sightings that it brought."""

    name, label, noun, part = "rule.unmerge", _("Separate the rule again"), _("separation"), "rule.give_back"

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
        return gettext("Separated from rule %(rule)d again") % {"rule": entry.after["from"]}


NONE_CHOSEN = _("Choose at least one of the rule's own sightings for the new rule.")


@register
class SplitRule(RuleAction):
    """Split sightings off to a new proposed rule with its own text and the same scope."""

    class Form(RevisionForm, ClaimForm):
        failure = NumberListField(
            error_messages={"required": NONE_CHOSEN},
            help_text=_("Sightings for the new rule."),
        )

    name, label = "rule.split", _("Split the rule")
    refused = _("Rule %(rule)d was merged into rule %(into)d. Split that one.")
    key, pages = "v", ("rule-list", "rule-detail")

    def change(self, rule: Rule, data: Mapping[str, Any], user: User | None, now: datetime) -> Extra | None:
        text, chosen = data["text"], sorted(set(data["failure"]))
        self.check(rule)
        own = set(rule.sightings.values_list("failure_id", flat=True))
        if not own.issuperset(chosen):
            raise ActionRefused(str(NONE_CHOSEN))
        if len(chosen) == len(own):
            raise ActionRefused(gettext("All sightings were chosen: nothing would be split. Edit the rule instead."))
        if len(chosen) > MAX_SPLIT:
            raise ActionRefused(gettext("At most %(most)d sightings are split off at once.") % {"most": MAX_SPLIT})
        if same := rules_with(text):
            raise text_taken(same[0].pk, gettext("Write what sets the new rule apart."))
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
        moved = len(entry.after["moved"])
        text = ngettext("Split: rule %(rule)d has %(n)d sighting", "Split: rule %(rule)d has %(n)d sightings", moved)
        return text % {"rule": entry.after["new"], "n": moved}
