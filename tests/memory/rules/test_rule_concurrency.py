"""Real threads against the real database: workers learn the same rule at once, two reviewers decide one rule."""

from __future__ import annotations

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from memory.distil.distillers import Facts, Lesson
from memory.distil.services import failure_learn
from memory.failures.actions import KIND as CLUSTER
from memory.prompting.scopes import Scope
from memory.rules.files import rules_import
from memory.rules.models import Rule, Sighting
from memory.rules.queries import RULE
from memory.rules.services import RuleChanged, rule_join
from tests.memory import decisions as acts
from tests.memory.acting import do
from tests.memory.decisions import cluster_merge, cluster_mute, cluster_propose, rule_merge
from tests.memory.failure_rows import UNKNOWN, cluster_of, failed
from tests.memory.rule_rows import card, failures, fresh, person, rule
from tests.search.engine.test_concurrency import together
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db(transaction=True)


def test_four_workers_that_learn_the_same_make_one_rule():
    rows = failures(8)

    def learn(k: int) -> list[int]:
        words = ["Do not call tl.any.", "Do not call `triton.language.any`."]
        given = {"pattern": "no.name", "origin": "pattern", "scope": Scope()}
        return [rule_join(failure=row, claim=words[k % 2], **given).pk for row in rows]

    found = together(4, learn)
    assert len({pk for pks in found for pk in pks}) == Rule.objects.count() == 1
    assert Sighting.objects.count() == 8


def test_of_two_decisions_at_once_one_is_taken_and_the_other_is_told():
    row, rita, rolf = rule(), person(), person("rolf")
    seen = [card(row, rita), card(row, rolf)]

    def decide(k: int) -> object:
        try:
            if k == 0:
                return acts.rule_approve(**seen[0])
            return acts.rule_reject(reason="1", **seen[1])
        except RuleChanged as told:
            return told.rule.revision

    found = together(2, decide)
    assert sorted(isinstance(answer, AuditEntry) for answer in found) == [False, True]
    assert 1 in found and fresh(row).revision == 1
    assert AuditEntry.objects.filter(verb__in=("rule.approve", "rule.reject")).count() == 1


def test_a_rule_that_is_merged_while_workers_learn_loses_nothing():
    first, target, rows = rule("Do not call tl.any."), rule("Do not call tl.all."), failures(12)

    def act(k: int) -> None:
        if k == 0:
            rule_merge(into=target.pk, **card(first))
        else:
            for row in rows[k - 1 :: 3]:
                rule_join(failure=row, claim="Do not call tl.any.", pattern="", origin="pattern", scope=Scope())

    together(4, act)
    assert Sighting.objects.filter(rule=target).count() == 12


def test_merges_into_each_other_at_once_make_no_circle():
    a, b = rule("Do not call tl.any."), rule("Do not call tl.all.")
    seen = [(card(a), b.pk), (card(b), a.pk)]

    def merge(k: int) -> bool:
        try:
            rule_merge(into=seen[k][1], **seen[k][0])
        except ActionRefused:
            return False
        return True

    assert sorted(together(2, merge)) == [False, True]
    assert sorted([fresh(a).state, fresh(b).state]) == ["merged", "proposed"]


def test_the_same_file_and_the_same_act_sent_twice_at_once_happen_once():
    together(3, lambda _: rules_import(data=b"Do not use tl.any.||1\n", name="x", user=None))
    row = Rule.objects.get()
    given = card(row, key="double")
    together(3, lambda _: acts.rule_approve(**given))
    assert (fresh(row).state, fresh(row).revision) == ("approved", 1)


CLAIM = "Do not turn the frobnicator upside down; leave it as it was made."


class SaysAny:
    """A distiller that has one answer to everything."""

    def distil(self, facts: Facts) -> Lesson:
        return Lesson("rule", claim="Do not call tl.any on a block of masks.")


def test_a_person_and_a_worker_learn_from_the_same_failures_without_waiting_for_each_other():
    run = make_run()
    rows = [failed(run, UNKNOWN) for _ in range(12)]

    def act(k: int) -> None:
        if k == 0:
            cluster_propose(cluster=rows[0].cluster, claim=CLAIM, user=None)
            return
        for row in reversed(rows):  # the other way round: a lock on each row would close a circle
            failure_learn(failure_id=row.pk, distiller=SaysAny())

    together(2, act)
    assert Rule.objects.get(origin="person").sightings.count() == 12


def test_equal_acts_on_a_cluster_sent_at_once_happen_once():
    row = failed(make_run(), UNKNOWN)
    muted = together(3, lambda _: cluster_mute(cluster=row.cluster, user=None, key="mute").pk)
    proposed = together(3, lambda _: cluster_propose(cluster=row.cluster, claim=CLAIM, user=None, key="say").pk)
    assert len(set(muted)) == len(set(proposed)) == 1
    assert AuditEntry.objects.filter(object_type="cluster").count() == 2


def test_clusters_that_are_merged_into_each_other_at_once_make_no_circle():
    run = make_run()
    a, b = cluster_of(run), cluster_of(run, UNKNOWN)

    def merge(k: int) -> bool:
        try:
            cluster_merge(cluster=(a, b)[k], into=(b, a)[k], user=None)
        except ActionRefused:
            return False
        return True

    assert sorted(together(2, merge)) == [False, True]


@pytest.mark.parametrize("name", ["rule.approve", "cluster.mute"])
def test_of_programs_that_name_the_same_version_one_is_taken(name):
    row, cluster, user = rule(), cluster_of(make_run()), person()
    where = {"rule_id": row.pk} if name == "rule.approve" else {"key": cluster.key}

    def decide(k: int) -> object:
        try:
            return do(name, user, where, {"revision": 0}, key=f"k{k}", version=0).entry
        except ActionRefused as error:
            return error

    found = together(4, decide)
    assert sorted(type(one).__name__ for one in found) == ["AuditEntry", "Outdated", "Outdated", "Outdated"]


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite has one writer")
@pytest.mark.parametrize("kind", [RULE, CLUSTER])
def test_a_named_version_locks_in_the_order_of_the_services(kind):
    target = rule() if kind is RULE else cluster_of(make_run())
    with transaction.atomic(), CaptureQueriesContext(connection) as found:
        kind.lock(target)
    locks = [one["sql"] for one in found if "pg_advisory_xact_lock" in one["sql"] or "FOR UPDATE" in one["sql"]]
    assert ["advisory" in sql for sql in locks] == [True, False]
