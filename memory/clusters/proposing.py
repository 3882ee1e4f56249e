"""A person's rule from a cluster of failures: its words, and every failure there that may be evidence for it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from memory.clusters.proposing_undo import lessons_of
from memory.clusters.queries import members
from memory.distil.library_names import InstalledNames
from memory.distil.services import facts_of
from memory.distil.table import TableDistiller, unfit_why
from memory.distil.values import Facts, Lesson
from memory.failures.models import Failure, FailureCluster
from memory.rules.desk import rules_locked
from memory.rules.models import Rule, Sighting
from memory.rules.refused_wording import claim_check
from memory.rules.scopes import Scope
from memory.rules.services import rule_join

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

VERB = "cluster.propose"
MOST_SIGHTINGS = 2000


def cluster_propose(
    *,
    cluster: FailureCluster,
    claim: str,
    user: AbstractBaseUser | None,
    scope: Scope | None = None,
    key: str | None = None,
) -> Rule:
    """The proposed rule of these words with every fit failure of the cluster as a sighting. Raises ActionRefused.

    The same words as a rule's join that rule. The newest 2,000 failures are looked at. The act's row keeps what
    `memory.clusters.proposing_undo` needs.
    """
    with rules_locked():
        done = action_done(key=key, verb=VERB)
        if done is not None:
            return Rule.objects.get(pk=done.after["rule"])
        fit = fit_failures(cluster)
        if not fit:
            raise ActionRefused(f"No failure of this cluster may teach. {why_unfit(cluster)}")
        first = _whole(fit[0])
        words = " ".join(claim.split())
        why = claim_check(words, source=first.node.source, message=first.message)
        if why:
            raise ActionRefused(f"These words cannot be a rule: {why}. Say it so that it is true of any kernel.")
        where = scope if scope is not None else suggested(fit).scope
        origin = Rule.Origin.PERSON
        lessons, newest, last = lessons_of(fit), _newest_id(Rule), _newest_id(Sighting)
        rule = rule_join(failure=first, claim=words, pattern=cluster.pattern, origin=origin, scope=where, user=user)
        Sighting.objects.bulk_create(
            (Sighting(rule=rule, failure_id=pk) for pk in fit[1:]), batch_size=500, ignore_conflicts=True
        )
        for start in range(0, len(fit), 500):
            taught = Failure.objects.filter(pk__in=fit[start : start + 500])
            taught.update(lesson=Failure.Lesson.RULE, lesson_why="")
        after = {"rule": rule.pk, "claim": words, "sightings": len(fit)} | {
            "new": rule.pk > newest,
            "revision": rule.revision,
            "added": list(rule.sightings.filter(pk__gt=last).values_list("failure_id", flat=True)),
        }
        before = {"lessons": lessons}
        action_on(verb=VERB, on=("cluster", cluster.pk), user=user, key=key, before=before, after=after)
        return rule


def fit_failures(cluster: FailureCluster) -> list[int]:
    """Row ids of its failures that may be evidence, oldest first, of the newest 2,000."""
    fit = cache(lambda facts: not unfit_why(facts))  # many say the same
    return sorted(pk for pk, facts, found_unfit in _newest(cluster, MOST_SIGHTINGS) if not found_unfit and fit(facts))


def why_unfit(cluster: FailureCluster) -> str:
    """Why its newest failure must not teach; empty when it may."""
    newest = _newest(cluster, 1)
    return newest[0][2] or unfit_why(newest[0][1]) if newest else "It holds none."


def suggested(fit: list[int]) -> Lesson:
    """What the table of known errors makes of the first of them."""
    if not fit:
        return Lesson("nothing", why="No failure may teach.")
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
