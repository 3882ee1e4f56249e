"""What reviewers decide about clusters: once per key, audited, taken back by Undo, refused with a reason."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from memory.failures.models import Failure, FailureCluster
from memory.failures.queries import Chosen, cluster_table
from memory.prompting.scopes import Scope
from memory.rules.models import Rule
from memory.rules.services import rule_join
from tests.memory.decisions import (
    cluster_assign,
    cluster_merge,
    cluster_mute,
    cluster_propose,
    cluster_split,
    cluster_unmute,
    rule_approve,
    rule_merge,
    undo,
)
from tests.memory.failure_rows import UNKNOWN, cluster_of, failed
from tests.memory.rule_rows import card, rule
from tests.search.makers import make_problem, make_run

pytestmark = pytest.mark.django_db
CLAIM = "Do not turn the frobnicator upside down; leave it as it was made."


@pytest.fixture
def user() -> User:
    return User.objects.create_user("rita")


def keys() -> list[str]:
    return [row.cluster.key for row in cluster_table(Chosen()).rows]


def test_an_act_with_one_key_is_done_once(user):
    cluster = cluster_of(make_run())
    first = cluster_assign(cluster=cluster, assignee=user, user=user, key="k")
    assert cluster_assign(cluster=cluster, assignee=user, user=user, key="k") == first
    cluster.refresh_from_db()
    assert cluster.assignee == user and AuditEntry.objects.filter(object_type="cluster").count() == 1


def test_a_muted_cluster_is_left_out_until_it_escalates(user):
    run = make_run()
    cluster = cluster_of(run, count=2)
    cluster_mute(cluster=cluster, user=user)
    table = cluster_table(Chosen())
    assert (table.rows, table.muted, table.total) == ((), 1, 2)
    assert len(cluster_table(Chosen(muted=True)).rows) == 1
    cluster_of(run, count=3)
    [row] = cluster_table(Chosen()).rows
    assert row.escalated and not row.muted and row.counted.count == 5
    cluster_mute(cluster=cluster, user=user)  # from here on
    assert keys() == []
    cluster_unmute(cluster=cluster, user=user)
    assert keys() == [cluster.key]


def test_a_merge_shows_both_under_one_and_a_split_parts_them(user):
    run = make_run()
    into, other = cluster_of(run, count=2), cluster_of(run, UNKNOWN)
    cluster_merge(cluster=other, into=into, user=user)
    [row] = cluster_table(Chosen()).rows
    assert (row.cluster, row.counted.count, row.last.cluster) == (into, 3, other)
    assert failed(run, UNKNOWN).cluster == other  # keys stay; only what is shown changes
    cluster_split(cluster=other, user=user)
    assert set(keys()) == {into.key, other.key}


def test_what_was_merged_into_a_merged_cluster_moves_along_and_back(user):
    run = make_run()
    first, second = cluster_of(run, UNKNOWN), cluster_of(run, "RuntimeError: another one")
    third = cluster_of(run)
    cluster_merge(cluster=first, into=second, user=user)
    merged = cluster_merge(cluster=second, into=third, user=user)
    first.refresh_from_db()
    assert first.merged_into == third and keys() == [third.key]
    undo(merged.pk, user=user)
    first.refresh_from_db()
    assert first.merged_into == second and len(keys()) == 2


def test_a_cluster_cannot_be_merged_into_itself_not_even_by_detour(user):
    run = make_run()
    first, second = cluster_of(run), cluster_of(run, UNKNOWN)
    cluster_merge(cluster=first, into=second, user=user)
    with pytest.raises(ActionRefused, match="itself"):
        cluster_merge(cluster=second, into=first, user=user)
    third = cluster_of(run, "RuntimeError: another one")
    with pytest.raises(ActionRefused, match="Split it off first"):
        cluster_merge(cluster=first, into=third, user=user)


def test_undo_restores_and_is_refused_once_something_changed(user):
    cluster = cluster_of(make_run())
    muted = cluster_mute(cluster=cluster, user=user)
    undone = undo(muted.pk, user=user, key="u")
    assert undo(muted.pk, user=user, key="u") == undone
    cluster.refresh_from_db()
    assert (cluster.muted_at, cluster.muted_count) == (None, 0)
    with pytest.raises(ActionRefused, match="undone already"):
        undo(muted.pk, user=user)
    assigned = cluster_assign(cluster=cluster, assignee=user, user=user)
    cluster_assign(cluster=cluster, assignee=None, user=user)
    with pytest.raises(ActionRefused, match="changed since"):
        undo(assigned.pk, user=user)


def test_a_person_s_rule_has_every_fit_failure_as_a_sighting(user):
    run, other = make_run(), make_run(problem=make_problem("gelu"))
    fit = [failed(run, UNKNOWN), failed(other, UNKNOWN)]
    cheat = failed(run, UNKNOWN, verdict="dishonest")
    rule = cluster_propose(cluster=fit[0].cluster, claim=f"  {CLAIM}\n", user=user, key="k")
    assert cluster_propose(cluster=fit[0].cluster, claim=CLAIM, user=user, key="k") == rule
    assert (rule.origin, rule.state, rule.current.text) == ("person", "proposed", CLAIM)
    assert {sighting.failure for sighting in rule.sightings.all()} == set(fit)
    cheat.refresh_from_db()
    assert cheat.lesson == "" and set(Failure.objects.exclude(pk=cheat.pk).values_list("lesson", flat=True)) == {"rule"}
    assert AuditEntry.objects.get(verb="cluster.propose").after["sightings"] == 2


@pytest.mark.parametrize(
    ("changes", "claim", "why"),
    [
        ({"verdict": "timed_out", "reason": "run.timeout"}, CLAIM, "No failure of this cluster can support a rule"),
        ({"verdict": "dishonest"}, CLAIM, "cheated"),
        ({}, "Fix line 12 of the module before the launch.", "line number"),
        ({}, "Do not use own_name as the kernel does here.", "own_name"),
        ({}, " ", "too short"),
    ],
)
def test_a_rule_without_evidence_or_fit_words_is_refused(user, changes, claim, why):
    failure = failed(make_run(), **changes)
    with pytest.raises(ActionRefused, match=why):
        cluster_propose(cluster=failure.cluster, claim=claim, user=user)
    failure.refresh_from_db()
    assert failure.lesson == "" and not Rule.objects.exists()


def _merge_meanwhile(what: str, a: FailureCluster, b: FailureCluster, user: User) -> None:
    if what == "into the split one":
        cluster_merge(cluster=b, into=a, user=user)
    elif what == "elsewhere":
        cluster_merge(cluster=b, into=cluster_of(make_run(key="other"), "RuntimeError: another one"), user=user)
    elif what == "gone":
        Failure.objects.filter(cluster=b).update(cluster=a)
        b.delete()


@pytest.mark.parametrize("what", ["into the split one", "elsewhere", "gone"])
def test_the_undo_of_a_split_makes_no_chain_and_no_circle(user, what):
    run = make_run()
    a, b = cluster_of(run), cluster_of(run, UNKNOWN)
    cluster_merge(cluster=a, into=b, user=user)
    split = cluster_split(cluster=a, user=user)
    _merge_meanwhile(what, a, b, user)
    with pytest.raises(ActionRefused, match="Merge it again"):
        undo(split.pk, user=user)
    assert not FailureCluster.objects.filter(merged_into__merged_into__isnull=False).exists()
    assert all(row.cluster.merged_into_id is None for row in cluster_table(Chosen()).rows)


def test_an_assignment_to_somebody_who_has_left_is_not_given_back(user):
    cluster, gone = cluster_of(make_run()), User.objects.create_user("gone")
    cluster_assign(cluster=cluster, assignee=gone, user=user)
    taken = cluster_assign(cluster=cluster, assignee=None, user=user)
    gone.delete()
    with pytest.raises(ActionRefused, match="no account"):
        undo(taken.pk, user=user)


def test_a_person_s_words_make_their_rule_though_the_evidence_was_moved_to_another(user):
    failure = failed(make_run(), UNKNOWN)
    given = {"pattern": "", "origin": "pattern", "scope": Scope()}
    first, other = (
        rule_join(failure=failure, claim="Do not call tl.any on a scalar.", **given),
        rule("Do not use tl.dot here at all."),
    )
    rule_merge(into=other.pk, **card(first))
    new = cluster_propose(cluster=failure.cluster, claim=CLAIM, user=user)
    assert new.pk != other.pk and new.current.text == CLAIM
    assert rule_join(failure=failure, claim="Do not call tl.any on a scalar.", **given) == other


def test_who_proposes_from_a_cluster_is_the_author(user):
    failure = failed(make_run(), UNKNOWN)
    new = cluster_propose(cluster=failure.cluster, claim=CLAIM, user=user)
    assert new.created_by == user
    assert rule_approve(**card(new, user)).after["own"]


def test_what_was_found_unfit_supports_no_rule_of_a_person(user):
    run = make_run()
    fit, unfit = failed(run, UNKNOWN), failed(run, UNKNOWN)
    Failure.objects.filter(pk=unfit.pk).update(lesson="unfit", lesson_why="The disk was full.")
    new = cluster_propose(cluster=fit.cluster, claim=CLAIM, user=user)
    assert list(new.sightings.values_list("failure", flat=True)) == [fit.pk]
    unfit.refresh_from_db()
    assert unfit.lesson == "unfit"
    Failure.objects.filter(pk=fit.pk).update(lesson="unfit", lesson_why="The disk was full.")
    with pytest.raises(ActionRefused, match="The disk was full"):
        cluster_propose(cluster=fit.cluster, claim=CLAIM, user=user)
