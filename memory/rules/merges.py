"""Two rules that are one, one rule that is two. Sightings are moved, never lost.

A merge moves what the other rule has not. A failure that supports both stays linked to both, so that parting them
gives each its own again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from adaexplore_site.core.audit import ActionRefused, action_on
from adaexplore_site.core.models import AuditEntry
from memory.rules.decisions import Card
from memory.rules.desk import (
    Extra,
    WordsTaken,
    claim_sound,
    rule_act,
    rule_load,
    rule_new,
    rule_save,
    scope_of,
    snapshot,
)
from memory.rules.models import Rule, Sighting
from memory.rules.scopes import Scope
from memory.rules.services import rules_with, successor

if TYPE_CHECKING:
    from typing import Unpack

    from django.contrib.auth.models import AbstractBaseUser

MAX_SPLIT = 5000


def rule_merge(*, into: int, **card: Unpack[Card]) -> AuditEntry | None:
    """The rule becomes part of rule `into`, which gets its sightings. Raises ActionRefused, RuleChanged."""

    def act(rule: Rule) -> Extra | None:
        if into == rule.pk:
            raise ActionRefused("A rule cannot be merged into itself. Choose another one.")
        if rule.state == Rule.State.MERGED and rule.merged_into_id == into:
            return None
        if rule.state == Rule.State.MERGED:
            raise ActionRefused(f"Rule {rule.pk} was merged into rule {rule.merged_into_id} already.")
        other = rule_load(into)
        if other.state == Rule.State.MERGED:
            raise ActionRefused(f"Rule {into} was merged into rule {successor(other).pk}. Choose that one.")
        moved = sightings_move(rule, other)
        rule.state, rule.merged_into, rule.recheck, rule.deferred_until = Rule.State.MERGED, other, "", None
        return {"into": into, "moved": moved, "other": _touched(other, "rule.take_in", card["user"], {"from": rule.pk})}

    return rule_act(verb="rule.merge", act=act, **card)


def rule_unmerge(**card: Unpack[Card]) -> AuditEntry | None:
    """A merged rule stands by itself again, as before, with the sightings it brought, wherever they are now."""

    def act(rule: Rule) -> Extra | None:
        if rule.state != Rule.State.MERGED:
            return None
        other = rule_load(successor(rule).pk)
        merge = AuditEntry.objects.filter(verb="rule.merge", object_type="rule", object_id=str(rule.pk)).first()
        brought = [pair[0] for pair in (merge.after.get("moved", []) if merge else [])]
        moved = sightings_move(other, rule, brought)
        was = str((merge.before if merge else {}).get("state", Rule.State.PROPOSED))
        rule.state, rule.merged_into = was, None
        return {
            "from": other.pk,
            "moved": moved,
            "other": _touched(other, "rule.give_back", card["user"], {"to": rule.pk}),
        }

    return rule_act(verb="rule.unmerge", act=act, **card)


def rule_split(*, failures: Iterable[int], text: str, **card: Unpack[Card]) -> AuditEntry | None:
    """Move the sightings of these failures to a new proposed rule with its own words and the same scope.

    The new rule's number is `after["new"]`. Raises ActionRefused: none or all chosen, not its own, bad wording.
    """
    clean, chosen = claim_sound(text), sorted(set(failures))

    def act(rule: Rule) -> Extra:
        assert rule.current is not None
        if rule.state == Rule.State.MERGED:
            raise ActionRefused(f"Rule {rule.pk} was merged into rule {rule.merged_into_id}. Split that one.")
        own = set(rule.sightings.values_list("failure_id", flat=True))
        if not chosen or not own.issuperset(chosen):
            raise ActionRefused("Choose at least one of the rule's own sightings for the new rule.")
        if len(chosen) == len(own):
            raise ActionRefused("All sightings were chosen: nothing would be split. Edit the rule instead.")
        if len(chosen) > MAX_SPLIT:
            raise ActionRefused(f"At most {MAX_SPLIT} sightings are split off at once.")
        if same := rules_with(clean):
            raise WordsTaken(same[0].pk, "Write what sets the new rule apart.")
        scope: Scope = scope_of(rule.current)
        new = rule_new(
            text=clean, scope=scope, origin=Rule.Origin.PERSON, user=card["user"], why=f"split from {rule.pk}"
        )
        moved = sightings_move(rule, new, chosen)
        after = {**snapshot(new), "text": clean, "split_from": rule.pk}
        action_on(verb="rule.split_off", on=("rule", new.pk), user=card["user"], key=None, after=after)
        return {"new": new.pk, "moved": moved}

    return rule_act(verb="rule.split", act=act, **card)


def sightings_move(source: Rule, target: Rule, failures: Iterable[int] | None = None) -> list[list[int | None]]:
    """Move sightings (all, or of these failures) that `target` has not. Returns [failure, where it was moved from]."""
    mine = Sighting.objects.filter(rule=source).exclude(failure__sightings__rule=target)
    wanted = None if failures is None else set(failures)
    rows = [row for row in mine if wanted is None or row.failure_id in wanted]
    was = [[row.failure_id, row.moved_from_id] for row in rows]
    for row in rows:
        row.rule, row.moved_from = target, source
    Sighting.objects.bulk_update(rows, ["rule", "moved_from"], batch_size=300)
    return was


def sightings_return(source: Rule, target: Rule, moved: Iterable[list[int | None]]) -> int:
    """Undo a move: what of it is still at `source` goes back to `target`, with the origin it had. Returns how many."""
    was: dict[int | None, Any] = {pair[0]: pair[1] for pair in moved}
    mine = Sighting.objects.filter(rule=source).exclude(failure__sightings__rule=target)
    rows = [row for row in mine if row.failure_id in was]
    for row in rows:
        row.rule, row.moved_from_id = target, was[row.failure_id]
    Sighting.objects.bulk_update(rows, ["rule", "moved_from"], batch_size=300)
    return len(rows)


def _touched(other: Rule, verb: str, user: AbstractBaseUser | None, after: dict[str, Any]) -> dict[str, Any]:
    """The other rule of a merge counts the act, too, and has it in its history."""
    before = snapshot(other)
    rule_save(other)
    action_on(verb=verb, on=("rule", other.pk), user=user, key=None, before=before, after={**snapshot(other), **after})
    return {"rule": other.pk, "before": before, "revision": other.revision}
