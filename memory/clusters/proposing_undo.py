"""Takes back a rule that was proposed from a cluster, while nobody has decided on it or used it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from adaexplore_site.core.audit import ActionRefused, action_on
from adaexplore_site.core.models import AuditEntry
from memory.failures.models import Failure
from memory.rules.models import Rule, Sighting
from memory.rules.undo import rule_remove, standing

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

BATCH = 500
Lesson = list[Any]  # [row id of the failure, its lesson, why]


def propose_undo(*, action: AuditEntry, verb: str, user: AbstractBaseUser | None, key: str | None) -> AuditEntry:
    """Withdraw the rule, or from a rule that was there before the sightings that the act gave it.

    The failures' lessons are what they were, but for those that another rule has learned from since. Call it with the
    rules locked. Raises ActionRefused.
    """
    done = action.after
    if "added" not in done:
        raise ActionRefused("This rule was proposed before such acts could be undone. Reject it on its page instead.")
    rule = Rule.objects.filter(pk=done["rule"]).first()
    if rule is None:
        raise ActionRefused(f"Rule {done['rule']} is gone already.")
    if done["revision"] not in standing(rule):
        raise ActionRefused(f"Somebody has decided on rule {rule.pk} since. Undo that first, or reject it on its page.")
    if done["new"]:
        rule_remove(rule, done["sightings"])
    else:
        for chunk in _chunks(done["added"]):
            Sighting.objects.filter(rule=rule, failure__in=chunk).delete()
    _lessons_back(_lessons_before(action))
    after = {"of": action.pk, "rule": done["rule"], "withdrawn": done["new"]}
    return action_on(verb=verb, on=(action.object_type, int(action.object_id)), user=user, key=key, after=after)


def lessons_of(failures: list[int]) -> list[Lesson]:
    """What is known of them before a proposal says that they taught a rule."""
    rows = Failure.objects.exclude(lesson=Failure.Lesson.RULE).order_by("pk")
    columns = ("pk", "lesson", "lesson_why")
    return [list(row) for chunk in _chunks(failures) for row in rows.filter(pk__in=chunk).values_list(*columns)]


def _lessons_before(action: AuditEntry) -> list[Lesson]:
    """What its failures had taught before it; where that was another proposal's rule, what they had before that.

    The other one may have been taken back first: it left them to this one.
    """
    found: dict[int, Lesson] = {row[0]: row for row in action.before["lessons"]}
    missing = set(action.after["added"]) - found.keys()
    others = AuditEntry.objects.filter(verb=action.verb, object_type=action.object_type, pk__lt=action.pk).order_by(
        "-pk"
    )
    for other in others.filter(object_id=action.object_id) if missing else ():
        found |= {row[0]: row for row in other.before.get("lessons", ()) if row[0] in missing - found.keys()}
    return list(found.values())


def _lessons_back(lessons: list[Lesson]) -> None:
    groups: dict[tuple[str, str], list[int]] = {}
    for pk, lesson, why in lessons:
        groups.setdefault((lesson, why), []).append(pk)
    for (lesson, why), failures in groups.items():
        for chunk in _chunks(failures):
            free = Failure.objects.filter(pk__in=chunk, lesson=Failure.Lesson.RULE, sightings__isnull=True)
            Failure.objects.filter(pk__in=list(free.values_list("pk", flat=True))).update(lesson=lesson, lesson_why=why)


def _chunks(ids: list[int]) -> Iterable[list[int]]:
    """SQLite takes a limited number of values."""
    return (ids[start : start + BATCH] for start in range(0, len(ids), BATCH))
