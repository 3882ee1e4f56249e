"""Takes an act on rules back, as long as no later act on the same rule stands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django.db.models import F, ProtectedError

from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry
from memory.prompting.models import RuleUse
from memory.rules.desk import restore_snapshot, rule_load, rule_save, rules_locked, scope_of, snapshot
from memory.rules.merges import sightings_move, sightings_return
from memory.rules.models import Rule, RuleVersion, Sighting
from memory.rules.services import words_free

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

UNDO = "rule.undo"
Undo = Callable[[AuditEntry, "AbstractBaseUser | None"], list[int]]  # numbers of rules that it left as they are
_PART = {  # acts that another act wrote down beside itself
    "rule.take_in": "Undo the merge of the other rule instead",
    "rule.give_back": "Undo the parting of the other rule instead",
    "rule.split_off": "Undo the split of the first rule instead",
}


def rule_undo(*, action_id: int, user: AbstractBaseUser | None, key: str | None = None) -> AuditEntry:
    """Undo one act, or a whole batch. Raises ActionRefused with the reason when it cannot be undone any more.

    In a batch, rules that were changed since stay as they are; `after["left"]` names them.
    """
    with rules_locked():
        if done := action_done(key=key, verb=UNDO):
            return done
        action = AuditEntry.objects.filter(pk=action_id, object_type__in=("rule", "rules")).first()
        if action is None:
            raise ActionRefused("There is no such act. Reload the page.")
        undo = _UNDOS.get(action.verb)
        if undo is None:
            raise ActionRefused(f"This act is not undone. {_PART.get(action.verb, 'Do the opposite act instead')}.")
        if undone(action):
            raise ActionRefused("This act was undone already.")
        left = undo(action, user)
        on = (action.object_type, int(action.object_id))
        after = {"undoes": action.pk, "verb": action.verb, **_revisions(action), **({"left": left} if left else {})}
        return action_on(verb=UNDO, on=on, user=user, key=key, after=after)


def undone(action: AuditEntry) -> bool:
    """Whether an undo of this act stands in the audit."""
    mine = AuditEntry.objects.filter(verb=UNDO, object_type=action.object_type, object_id=action.object_id)
    return mine.filter(after__undoes=action.pk).exists()


def standing(rule: Rule) -> list[int]:
    """Revisions that the rule is as it was at: its own, then those that undos in a row have brought it back to."""
    undos = AuditEntry.objects.filter(verb=UNDO, object_type="rule", object_id=str(rule.pk)).order_by()
    back = {
        after["revision"]: after["back_to"] for after in undos.values_list("after", flat=True) if "back_to" in after
    }
    return revisions_back(rule.revision, back)


def revisions_back(revision: int, back: Mapping[int, int]) -> list[int]:
    """This revision, then those that undos in a row lead back to; `back` maps the revision of an undo to the older
    one that it restored."""
    found = [revision]
    while found[-1] in back:
        found.append(back[found[-1]])
    return found


def _revisions(action: AuditEntry) -> Mapping[str, int]:
    """Of the rule of an act that was just undone: its revision now, and the one that it is back at."""
    rule = Rule.objects.filter(pk=action.object_id).first() if action.object_type == "rule" else None
    return {"revision": rule.revision, "back_to": action.before["revision"]} if rule is not None else {}


def _untouched(rule_id: int, revision: int) -> Rule:
    rule = rule_load(rule_id)
    if revision not in standing(rule):
        raise ActionRefused(f"Rule {rule_id} was changed after this act. Undo what came later first.")
    return rule


def _fields(action: AuditEntry, user: AbstractBaseUser | None) -> list[int]:
    """The rule as it was before."""
    rule = _untouched(int(action.object_id), action.after["revision"])
    if action.before["current"] != rule.current_id:
        old = RuleVersion.objects.get(pk=action.before["current"])
        words_free(rule, old.text, scope_of(old))
    restore_snapshot(rule, action.before)
    rule_save(rule)
    return []


def _other(action: AuditEntry) -> Rule:
    return _untouched(action.after["other"]["rule"], action.after["other"]["revision"])


def _merge(action: AuditEntry, user: AbstractBaseUser | None) -> list[int]:
    rule, other = _untouched(int(action.object_id), action.after["revision"]), _other(action)
    sightings_return(other, rule, action.after["moved"])
    return _both(rule, other, action, user)


def _unmerge(action: AuditEntry, user: AbstractBaseUser | None) -> list[int]:
    rule, other = _untouched(int(action.object_id), action.after["revision"]), _other(action)
    sightings_return(rule, other, action.after["moved"])
    sightings_move(rule, other)  # what came meanwhile
    return _both(rule, other, action, user)


def _both(rule: Rule, other: Rule, action: AuditEntry, user: AbstractBaseUser | None) -> list[int]:
    restore_snapshot(rule, action.before)
    rule_save(rule)
    restore_snapshot(other, action.after["other"]["before"])
    rule_save(other)
    part = AuditEntry.objects.filter(verb__in=_PART, object_type="rule", object_id=str(other.pk))
    done = part.filter(after__revision=action.after["other"]["revision"]).get()
    after = {"undoes": done.pk, "verb": done.verb, **_revisions(done)}
    action_on(verb=UNDO, on=("rule", other.pk), user=user, key=None, after=after)
    return []


def _split(action: AuditEntry, user: AbstractBaseUser | None) -> list[int]:
    """The new rule becomes part of the old one again, with whatever it has seen since."""
    rule, new = _untouched(int(action.object_id), action.after["revision"]), _untouched(action.after["new"], 0)
    sightings_return(new, rule, action.after["moved"])
    sightings_move(new, rule)
    new.state, new.merged_into = Rule.State.MERGED, rule
    rule_save(new)
    restore_snapshot(rule, action.before)
    rule_save(rule)
    return []


def _create(action: AuditEntry, user: AbstractBaseUser | None) -> list[int]:
    """Take the new rule away, unless it has been used or has seen something of its own."""
    rule = _untouched(int(action.object_id), action.after["revision"])
    rule_remove(rule, action.after.get("sightings", 0))
    return []


def rule_remove(rule: Rule, sightings: int) -> None:
    """Take a rule away that has at most so many sightings and stood in no search. Raises ActionRefused."""
    if rule.sightings.count() > sightings or RuleUse.objects.filter(rule=rule).exists():
        raise ActionRefused(f"Rule {rule.pk} has been seen or used since. Reject it instead.")
    Rule.objects.filter(pk=rule.pk).update(current=None)
    try:
        rule.delete()
    except ProtectedError:
        raise ActionRefused(f"Rule {rule.pk} stands in a search that was started with it. Reject it instead.") from None


def _import(action: AuditEntry, user: AbstractBaseUser | None) -> list[int]:
    """Take away what the import made and nobody has touched; give counts back that it changed, and no later file."""
    made = Rule.objects.in_bulk(action.after["made"])
    linked = {
        *Sighting.objects.order_by().values_list("rule", flat=True).distinct(),
        *Rule.objects.order_by().values_list("merged_into", flat=True).distinct(),
        *RuleUse.objects.order_by().values_list("rule", flat=True).distinct(),
    }
    left = [pk for pk, rule in made.items() if rule.revision or pk in linked]
    gone = [pk for pk in made if pk not in set(left)]
    Rule.objects.filter(pk__in=gone).update(current=None)
    try:
        Rule.objects.filter(pk__in=gone).delete()
    except ProtectedError:
        raise ActionRefused("Some of these rules stand in a search that was started with them. Reject them.") from None
    given = {pk: {"imported_count": count} for pk, count in action.after.get("counts", [])}
    for pk, count, place in action.before.get("counts", []):
        Rule.objects.filter(pk=pk, **given.get(pk, {})).update(imported_count=count, imported_from=place)
    return left


def _bulk(action: AuditEntry, user: AbstractBaseUser | None) -> list[int]:
    """Every rule of the batch that nobody has touched since goes back to what it was."""
    rows = AuditEntry.objects.filter(pk__in=action.after["acts"], object_type="rule")
    was = {int(row.object_id): row for row in rows}
    rules = Rule.objects.in_bulk(was)
    ready = [rule for pk, rule in rules.items() if _stands(was[pk], rule)]
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for rule in ready:
        restore_snapshot(rule, was[rule.pk].before)
        rule.revision += 1
        groups[tuple(getattr(rule, name) for name in _RESTORED)].append(rule.pk)
    for values, pks in groups.items():  # a batch starts from a few states only
        for start in range(0, len(pks), 500):
            chunk = Rule.objects.filter(pk__in=pks[start : start + 500])
            chunk.update(**dict(zip(_RESTORED, values, strict=True)), revision=F("revision") + 1)
    acts = [_undo_row(action, was[rule.pk], rule, user) for rule in ready]
    AuditEntry.objects.bulk_create(acts)
    return sorted(set(rules) - {rule.pk for rule in ready})


def _stands(act: AuditEntry, rule: Rule) -> bool:
    """Whether the act is the rule's last one that was not undone."""
    revision = act.after["revision"]
    return rule.revision == revision or revision in standing(rule)


_RESTORED = ("state", "reject_reason", "recheck", "deferred_until", "decided_by_id", "decided_at")


def _undo_row(batch: AuditEntry, row: AuditEntry, rule: Rule, user: AbstractBaseUser | None) -> AuditEntry:
    after: Mapping[str, Any] = {"undoes": row.pk, "verb": row.verb, "batch": batch.pk, **snapshot(rule)}
    after = {**after, "back_to": row.before["revision"]}
    return AuditEntry(verb=UNDO, object_type="rule", object_id=row.object_id, actor=user, after=after)  # type: ignore[misc]


_UNDOS: Mapping[str, Undo] = {
    **{
        f"rule.{name}": _fields
        for name in ("approve", "reject", "retire", "restore", "defer", "edit", "scope", "rollback")
    },
    "rule.create": _create,
    "rule.merge": _merge,
    "rule.unmerge": _unmerge,
    "rule.split": _split,
    "rules.import": _import,
    "rules.bulk": _bulk,
}
UNDOABLE = frozenset(_UNDOS)
