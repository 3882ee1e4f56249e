"""How rules come to be: a person writes one, or a failure supports one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from django.db.models import F, QuerySet

from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry
from judge.values import Verdict
from memory.failures.models import Failure
from memory.rules.desk import WordsTaken, claim_sound, rule_new, rules_locked, scope_of, snapshot
from memory.rules.likeness import scopes_meet
from memory.rules.models import Rule, RuleVersion, Sighting
from memory.rules.scopes import Scope
from memory.rules.wording import agreement, wording, words_hash

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

NO_EVIDENCE = (Verdict.DISHONEST, Verdict.SUSPECT)  # a kernel that cheats teaches nothing


def rule_create(
    *,
    text: str,
    scope: Scope,
    user: AbstractBaseUser | None,
    failures: Sequence[Failure] = (),
    pattern: str = "",
    why: str = "",
    key: str | None = None,
) -> AuditEntry:
    """A person proposes a rule, with the failures that made them think of it. Its number is the act's `object_id`.

    Raises ActionRefused: wording that is no rule, one that says the same, a failure that is no evidence.
    """
    clean = claim_sound(text)
    for failure in failures:
        evidence_check(failure)
    with rules_locked():
        if done := action_done(key=key, verb="rule.create"):
            return done
        if known := rules_with(clean):
            raise WordsTaken(known[0].pk, "Open it instead.")
        rule = rule_new(text=clean, scope=scope, origin=Rule.Origin.PERSON, user=user, pattern=pattern, why=why)
        seen = [
            Sighting(rule=rule, failure=failure) for failure in {failure.pk: failure for failure in failures}.values()
        ]
        Sighting.objects.bulk_create(seen)
        after = {**snapshot(rule), "text": clean, "sightings": len(seen)}
        return action_on(verb="rule.create", on=("rule", rule.pk), user=user, key=key, after=after)


def rules_with(text: str) -> list[Rule]:
    """Rules whose current words are these, in whatever state, the oldest first; each with its current version."""
    found = Rule.objects.filter(current__words=words_hash(text)).select_related("current", "merged_into")
    return list(found.order_by("pk"))


def words_free(rule: Rule, text: str, scope: Scope) -> None:
    """Raise WordsTaken where these words would make the rule say what another one says at the same places.

    Rules that it says the same as now are no hindrance, nor are those that were merged into it. Rejected and retired
    ones are: a decision on words stands, whichever rule has them.
    """
    assert rule.current is not None
    taken = _twins(rule, text, scope)
    if taken:
        now = {twin.pk for twin in _twins(rule, rule.current.text, scope_of(rule.current))}
        for twin in taken:
            if twin.pk not in now:
                raise WordsTaken(successor(twin).pk, "Merge the two, or write what sets them apart.")


def _twins(rule: Rule, text: str, scope: Scope) -> list[Rule]:
    return [
        other
        for other in rules_with(text)
        if other.pk != rule.pk
        and successor(other).pk != rule.pk
        and other.current is not None
        and scopes_meet(scope, scope_of(other.current))
    ]


def rule_join(
    *, failure: Failure, claim: str, pattern: str, origin: str, scope: Scope, user: AbstractBaseUser | None = None
) -> Rule:
    """The failure supports the rule that says the same, else a new proposed one. Returns that rule; idempotent.

    The same: the same words and no other pattern, or `memory.rules.wording.says_same`; and scopes that can meet. A
    merged rule's successor gets the sighting; a rejected or retired rule gets it, too, and stays so. Evidence that
    a person has moved stays where it was put, unless a person (`user`, the author of a new rule) says something new.
    Raises ActionRefused for a kernel that cheated, for a failure that must not teach, and for wording that is no
    rule. Rules are locked until the caller's transaction ends: one that locks the failure's row, too, takes
    `rules_locked` before it.
    """
    clean = claim_sound(claim)
    evidence_check(failure)
    with rules_locked():
        moved = Sighting.objects.filter(failure=failure, moved_from__isnull=False).select_related("rule").first()
        if moved is not None and origin != Rule.Origin.PERSON:
            return moved.rule
        rule = _saying(clean, pattern, scope)
        if rule is None:
            rule = rule_new(text=clean, scope=scope, origin=origin, pattern=pattern, user=user)
        Sighting.objects.get_or_create(rule=rule, failure=failure)
        return rule


def evidence_check(failure: Failure) -> None:
    """Raise ActionRefused when the failure may support no rule."""
    if failure.verdict in NO_EVIDENCE:
        raise ActionRefused("A kernel that cheated, or is suspected of it, is no evidence for a rule.")
    if failure.lesson == Failure.Lesson.UNFIT:
        raise ActionRefused(f"This failure must not teach: {failure.lesson_why or 'it was the fault of the machine'}.")


def _saying(text: str, pattern: str, scope: Scope) -> Rule | None:
    """The rule that says this: equal words first, old wordings included, then the likest sentence, then the oldest."""
    equal = RuleVersion.objects.filter(words=words_hash(text))
    alike = [(version, 1.0) for version in _fitting(equal, pattern, scope)]
    if not alike:
        agrees = _agreeing(text, pattern)
        versions = _fitting(RuleVersion.objects.filter(pk__in=agrees), pattern, scope)
        alike = [(version, agrees[version.pk]) for version in versions]
    if not alike:
        return None

    def rank(pair: tuple[RuleVersion, float]) -> tuple[bool, bool, float, int]:
        version, found = pair
        return version.rule.pattern != pattern, scope_of(version) != scope, -found, version.rule_id

    return successor(min(alike, key=rank)[0].rule)


def _agreeing(text: str, pattern: str) -> dict[int, float]:
    """Current versions of rules that say the same in other words, and how surely."""
    current = RuleVersion.objects.filter(rule__current_id=F("pk")).exclude(rule__state=Rule.State.MERGED)
    if pattern:
        current = current.filter(rule__pattern__in=("", pattern))
    own = wording(text)
    rows = current.order_by().values_list("pk", "text")
    return {pk: found for pk, other in rows if (found := agreement(own, wording(other)))}


def _fitting(versions: QuerySet[RuleVersion], pattern: str, scope: Scope) -> list[RuleVersion]:
    rows = versions.select_related("rule").order_by("rule_id", "number")
    return [version for version in rows if _fits(version, pattern, scope)]


def _fits(version: RuleVersion, pattern: str, scope: Scope) -> bool:
    other = version.rule.pattern
    return (not pattern or not other or pattern == other) and scopes_meet(scope, scope_of(version))


def successor(rule: Rule) -> Rule:
    """The rule that has this one's sightings now: itself, or where its merges lead."""
    while rule.state == Rule.State.MERGED and rule.merged_into is not None:
        rule = rule.merged_into
    return rule
