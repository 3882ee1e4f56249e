"""A person's rule from a cluster of failures: its text, its sightings, and how it is withdrawn again."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from memory.distil.distillers import Facts, InstalledNames, Lesson, TableDistiller, unfit_why
from memory.distil.services import facts_of
from memory.failures.models import Failure, FailureCluster
from memory.failures.queries import members
from memory.prompting.scopes import Scope
from memory.rules.actions import rule_remove
from memory.rules.models import Rule, Sighting
from memory.rules.queries import stands_at
from memory.rules.services import rule_join, rule_link
from memory.rules.wording import claim_check

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

MOST_SIGHTINGS = 2000
BATCH = 500
Taught = list[Any]  # [row id of the failure, its lesson, why]


def propose(
    cluster: FailureCluster, claim: str, scope: Scope | None, user: AbstractBaseUser | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A proposed rule of this text with every fit failure of the cluster as a sighting. Raises ActionRefused.

    The same text as a rule's joins that rule. The newest 2,000 failures are looked at. Returns what the audit entry
    keeps, before and after, for `withdraw`. Call it with the rules locked.
    """
    fit = fit_failures(cluster)
    if not fit:
        text = gettext("No failure of this cluster can support a rule. %(why)s")
        raise ActionRefused(text % {"why": why_unfit(cluster)})
    first = _whole(fit[0])
    text = " ".join(claim.split())
    if why := claim_check(text, source=first.node.source, message=first.message):
        refusal = gettext("This text cannot be a rule: %(why)s. Write it so that it holds for any kernel.")
        raise ActionRefused(refusal % {"why": why})
    where = scope if scope is not None else suggested(fit).scope
    rows = Failure.objects.exclude(lesson=Failure.Lesson.RULE).order_by("pk").values_list("pk", "lesson", "lesson_why")
    taught: list[Taught] = [list(row) for chunk in _chunks(fit) for row in rows.filter(pk__in=chunk)]
    newest, last = _newest_id(Rule), _newest_id(Sighting)
    origin = Rule.Origin.PERSON
    rule = rule_join(failure=first, claim=text, pattern=cluster.pattern, origin=origin, scope=where, user=user)
    sightings = (Sighting(rule=rule, failure_id=pk) for pk in fit[1:])
    Sighting.objects.bulk_create(sightings, batch_size=BATCH, ignore_conflicts=True)
    for chunk in _chunks(fit):
        Failure.objects.filter(pk__in=chunk).update(lesson=Failure.Lesson.RULE, lesson_why="")
    added = list(rule.sightings.filter(pk__gt=last).values_list("failure_id", flat=True))
    after = {"rule": rule.pk, "claim": text, "sightings": len(fit), "new": rule.pk > newest}
    return {"lessons": taught}, {**after, "revision": rule.revision, "added": added}


def withdraw(entry: AuditEntry) -> None:
    """Remove the rule that was proposed, or from a rule that was there before the sightings that it was given.

    The failures' lessons are what they were, but for those that another rule has learned from since. Call it with the
    rules locked. Raises ActionRefused.
    """
    done = entry.after
    if "added" not in done:
        text = gettext("This rule was proposed by a version without this undo. Reject it on its page instead.")
        raise ActionRefused(text)
    rule = Rule.objects.filter(pk=done["rule"]).first()
    if rule is None:
        raise ActionRefused(gettext("Rule %(rule)d no longer exists.") % {"rule": done["rule"]})
    if done["revision"] not in stands_at([rule])[rule.pk]:
        text = gettext("A decision was made on rule %(rule)d since. Undo that first, or reject it on its page.")
        raise ActionRefused(text % {"rule": rule.pk}, see=rule_link(rule.pk))
    if done["new"]:
        rule_remove(rule, done["sightings"])
    else:
        for chunk in _chunks(done["added"]):
            Sighting.objects.filter(rule=rule, failure__in=chunk).delete()
    groups: dict[tuple[str, str], list[int]] = {}
    for pk, lesson, why in _taught_before(entry):
        groups.setdefault((lesson, why), []).append(pk)
    for (lesson, why), failures in groups.items():
        for chunk in _chunks(failures):
            free = Failure.objects.filter(pk__in=chunk, lesson=Failure.Lesson.RULE, sightings__isnull=True)
            Failure.objects.filter(pk__in=list(free.values_list("pk", flat=True))).update(lesson=lesson, lesson_why=why)


def _taught_before(entry: AuditEntry) -> list[Taught]:
    """What its failures had taught before it; where that was another proposal's rule, what they had before that.

    The other one may have been undone first: it left them to this one.
    """
    found: dict[int, Taught] = {row[0]: row for row in entry.before["lessons"]}
    missing = set(entry.after["added"]) - found.keys()
    others = AuditEntry.objects.filter(verb=entry.verb, object_type=entry.object_type, object_id=entry.object_id)
    for other in others.filter(pk__lt=entry.pk).order_by("-pk") if missing else ():
        found |= {row[0]: row for row in other.before.get("lessons", ()) if row[0] in missing - found.keys()}
    return list(found.values())


def fit_failures(cluster: FailureCluster) -> list[int]:
    """Row ids of its failures that may be evidence, oldest first, of the newest 2,000."""
    fit = cache(lambda facts: not unfit_why(facts))  # many say the same
    return sorted(pk for pk, facts, found_unfit in _newest(cluster, MOST_SIGHTINGS) if not found_unfit and fit(facts))


def why_unfit(cluster: FailureCluster) -> str:
    """Why its newest failure must not teach; empty when it may."""
    newest = _newest(cluster, 1)
    return newest[0][2] or unfit_why(newest[0][1]) if newest else "The cluster is empty."


def suggested(fit: list[int]) -> Lesson:
    """What the table of known errors makes of the first of them."""
    if not fit:
        return Lesson("nothing", why="No failure can support a rule.")
    return TableDistiller(InstalledNames(ask=False)).distil(facts_of(_whole(fit[0])))


def _newest_id(kind: type[Rule] | type[Sighting]) -> int:
    return kind.objects.order_by("-pk").values_list("pk", flat=True).first() or 0


def _whole(pk: int) -> Failure:
    return Failure.objects.select_related("node__evaluation", "device").get(pk=pk)


def _newest(cluster: FailureCluster, most: int) -> list[tuple[int, Facts, str]]:
    """Row id, facts, and why it was found unfit to teach before: that stands, whatever the table says today."""
    rows = Failure.objects.filter(cluster_id__in=members(cluster)).order_by("-pk")
    columns = ("pk", "lesson", "lesson_why", "verdict", "stage", "reason", "message")
    return [
        (pk, Facts(*facts), why if lesson == Failure.Lesson.UNFIT else "")
        for pk, lesson, why, *facts in rows.values_list(*columns)[:most]
    ]


def _chunks(ids: list[int]) -> Iterable[list[int]]:
    """SQLite takes a limited number of values."""
    return (ids[start : start + BATCH] for start in range(0, len(ids), BATCH))
