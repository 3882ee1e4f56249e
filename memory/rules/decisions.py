"""What a person decides about one rule. Every act takes the revision that the person saw, and is undone by its row.

proposed -> approved or rejected; approved -> retired; restored ones are proposed again. A rejected or retired rule
keeps its words: whoever wants other ones has it restored first, so that no edit goes around a reviewer's decision.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, TypedDict

from adaexplore_site.core.access import Role, can
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.text import storable_text
from memory.rules.desk import Extra, claim_sound, decide, rule_act, scope_of, version_add
from memory.rules.models import Rule
from memory.rules.refused_wording import claim_fault
from memory.rules.scopes import Scope
from memory.rules.services import words_free

if TYPE_CHECKING:
    from typing import Unpack

    from django.contrib.auth.models import AbstractBaseUser

REASONS = {
    "1": "The claim does not follow from its sightings",
    "2": "Too vague to act on",
    "3": "True of one kernel or problem only",
    "4": "Another rule says it already",
    "5": "The harness was at fault, not the kernel",
}
CLOSED = (Rule.State.REJECTED, Rule.State.RETIRED)  # a reviewer's decision, which only a reviewer opens again
MAX_DEFER_DAYS = 365
REASON_CHARS = 200


class Card(TypedDict):
    """The rule as a person saw it: its number and revision, who they are, and the form's key."""

    rule_id: int
    revision: int
    user: AbstractBaseUser | None
    key: str | None


def rule_approve(*, now: datetime, **card: Unpack[Card]) -> AuditEntry | None:
    """In force from now on. One's own rule may be approved; the act says so. An approved rule in doubt is confirmed."""

    def act(rule: Rule) -> Extra | None:
        if rule.state == Rule.State.APPROVED and not rule.recheck:
            return None
        if rule.state not in (Rule.State.PROPOSED, Rule.State.APPROVED):
            raise _not_in(rule, "approved", "Restore it first")
        assert rule.current is not None
        if wrong := claim_fault(rule.current.text):
            raise ActionRefused(f"Rule {rule.pk} must be edited before it can be approved. {wrong}")
        decide(rule, Rule.State.APPROVED, card["user"], now)
        return {"own": own_work(rule, card["user"])}

    return rule_act(verb="rule.approve", act=act, **card)


def rule_reject(*, reason: str, now: datetime, **card: Unpack[Card]) -> AuditEntry | None:
    """Out of the queue, never in force. `reason` is "1" to "5" of `REASONS`, or the person's own words."""
    words = reason_words(reason)

    def act(rule: Rule) -> Extra | None:
        if (rule.state, rule.reject_reason) == (Rule.State.REJECTED, words):
            return None
        if rule.state != Rule.State.PROPOSED:
            raise _not_in(rule, "rejected", "Only a proposed rule is rejected")
        decide(rule, Rule.State.REJECTED, card["user"], now)
        rule.reject_reason = words
        return {}

    return rule_act(verb="rule.reject", act=act, **card)


def rule_retire(*, reason: str, now: datetime, **card: Unpack[Card]) -> AuditEntry | None:
    """No longer in force; searches that were started with it keep it."""
    words = reason_words(reason)

    def act(rule: Rule) -> Extra | None:
        if (rule.state, rule.reject_reason) == (Rule.State.RETIRED, words):
            return None
        if rule.state != Rule.State.APPROVED:
            raise _not_in(rule, "retired", "Only an approved rule is retired")
        decide(rule, Rule.State.RETIRED, card["user"], now)
        rule.reject_reason = words
        return {}

    return rule_act(verb="rule.retire", act=act, **card)


def rule_restore(**card: Unpack[Card]) -> AuditEntry | None:
    """A rejected or retired rule is proposed again."""

    def act(rule: Rule) -> Extra | None:
        if rule.state == Rule.State.PROPOSED:
            return None
        if rule.state not in CLOSED:
            raise _not_in(rule, "restored", "Only a rejected or retired rule is restored")
        _reopen(rule)
        return {}

    return rule_act(verb="rule.restore", act=act, **card)


def rule_defer(*, days: int, now: datetime, **card: Unpack[Card]) -> AuditEntry | None:
    """Out of the queue for `days` days; its state stays."""

    def act(rule: Rule) -> Extra | None:
        if not 1 <= days <= MAX_DEFER_DAYS:
            raise ActionRefused(f"Defer by 1 to {MAX_DEFER_DAYS} days, not {days}.")
        if rule.state != Rule.State.PROPOSED and not rule.recheck:
            raise _not_in(rule, "deferred", "It does not wait for a review")
        rule.deferred_until = now + timedelta(days=days)
        return {"days": days}

    return rule_act(verb="rule.defer", act=act, **card)


def rule_edit(*, text: str, why: str = "", **card: Unpack[Card]) -> AuditEntry | None:
    """New words as the next version. A reviewer's edit keeps an approved rule approved; others make it a proposal.

    Refused for a rejected or retired rule, and for words that another rule has at the same places.
    """
    clean = claim_sound(text)

    def act(rule: Rule) -> Extra | None:
        assert rule.current is not None
        if rule.current.text == clean:
            return None
        return _reworded(rule, clean, scope_of(rule.current), card["user"], why)

    return rule_act(verb="rule.edit", act=act, **card)


def rule_scope(*, scope: Scope, why: str = "", **card: Unpack[Card]) -> AuditEntry | None:
    """The same words for other places, as the next version."""

    def act(rule: Rule) -> Extra | None:
        assert rule.current is not None
        if scope_of(rule.current) == scope:
            return None
        return _reworded(rule, rule.current.text, scope, card["user"], why)

    return rule_act(verb="rule.scope", act=act, **card)


def rule_rollback(*, number: int, **card: Unpack[Card]) -> AuditEntry | None:
    """Words and scope of an old version again, as the next version. Refused for wording that may not stand."""

    def act(rule: Rule) -> Extra | None:
        old = rule.versions.filter(number=number).first()
        if old is None:
            raise ActionRefused(f"Rule {rule.pk} has no version {number}.")
        assert rule.current is not None
        if (old.text, scope_of(old)) == (rule.current.text, scope_of(rule.current)):
            return None
        return _reworded(rule, claim_sound(old.text), scope_of(old), card["user"], f"back to version {number}")

    return rule_act(verb="rule.rollback", act=act, **card)


def reason_words(reason: str) -> str:
    """A reason as it is kept. Raises ActionRefused when there is none."""
    words = " ".join(storable_text(REASONS.get(reason.strip(), reason)).split())
    if not words:
        raise ActionRefused(f"Give a reason: a number from 1 to {len(REASONS)}, or your own words.")
    if len(words) > REASON_CHARS:
        raise ActionRefused(f"The reason has {len(words)} characters; {REASON_CHARS} fit.")
    return words


def own_work(rule: Rule, user: AbstractBaseUser | None) -> bool:
    """Whether the person wrote the rule or its current words. Who brought it in with a file did not."""
    assert rule.current is not None
    if rule.origin == Rule.Origin.IMPORT and rule.current.number == 1:
        return False
    authors: Iterable[int | None] = (rule.created_by_id, rule.current.author_id)
    return user is not None and user.pk in authors


def _reworded(rule: Rule, text: str, scope: Scope, user: AbstractBaseUser | None, why: str) -> Extra:
    if rule.state == Rule.State.MERGED:
        raise _not_in(rule, "edited", f"It was merged into rule {rule.merged_into_id}")
    if rule.state in CLOSED:
        raise _not_in(rule, "edited", "A reviewer proposes it again first")
    words_free(rule, text, scope)
    version = version_add(rule=rule, text=text, scope=scope, user=user, why=storable_text(why.strip()))
    keeps = (
        rule.state == Rule.State.APPROVED and user is not None and can(user, Role.REVIEWER) and not claim_fault(text)
    )
    if rule.state == Rule.State.APPROVED and not keeps:
        _reopen(rule)
    return {"version": version.number}


def _reopen(rule: Rule) -> None:
    rule.state, rule.reject_reason, rule.deferred_until = Rule.State.PROPOSED, "", None
    rule.decided_by, rule.decided_at = None, None


def _not_in(rule: Rule, wanted: str, why: str) -> ActionRefused:
    return ActionRefused(f"Rule {rule.pk} is {rule.state} and cannot be {wanted}. {why}.")
