"""Every action on clusters: its role, its key, an older version, what it changes, and its undo."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test.utils import CaptureQueriesContext

from adaexplore_site.actions import registry, runner
from adaexplore_site.actions.action import CHANGED, UNDO, UNDONE
from adaexplore_site.actions.runner import Outdated
from adaexplore_site.activity.trail import trail_rows
from adaexplore_site.core.audit import ActionRefused, FieldsRefused
from adaexplore_site.core.models import AuditEntry
from memory.failures.models import FailureCluster
from memory.prompting.scopes import Scope
from memory.rules.models import Rule
from tests.memory.acting import do, standing
from tests.memory.decisions import cluster_assign, cluster_merge, cluster_mute
from tests.memory.failure_rows import UNKNOWN, cluster_of
from tests.memory.rule_rows import person
from tests.pages import client_of
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db
CLAIM = "Do not call dtypes of Triton; convert with x.to(tl.float32)."
Scene = tuple[FailureCluster, dict[str, Any]]


def plain(**fields: Any) -> Scene:
    return cluster_of(make_run()), fields


def muted() -> Scene:
    row = cluster_of(make_run())
    cluster_mute(cluster=row, user=None)
    return row, {}


def pair() -> Scene:
    run = make_run()
    return cluster_of(run), {"into": cluster_of(run, UNKNOWN).key}


def merged() -> Scene:
    row, fields = pair()
    cluster_merge(cluster=row, into=FailureCluster.objects.get(key=fields["into"]), user=None)
    return row, {}


SCENES: dict[str, Callable[[], Scene]] = {
    "cluster.assign": lambda: plain(assignee=person("ada").username),
    "cluster.mute": plain,
    "cluster.unmute": muted,
    "cluster.merge": pair,
    "cluster.split": merged,
    "cluster.propose": lambda: plain(claim=CLAIM),
}


def facts() -> list[Any]:
    rows = FailureCluster.objects.order_by("pk").values_list("pk", "assignee", "muted_at", "muted_count", "merged_into")
    return [*rows, *Rule.objects.values_list("pk", "state")]


def everything() -> list[Any]:
    return [*facts(), *AuditEntry.objects.values_list("pk")]


def test_every_action_on_clusters_is_looked_at_here():
    found = {action.name for action in registry.actions() if action.kind.name == "cluster"}
    assert found == {*SCENES, "cluster.undo"}


@pytest.mark.parametrize("name", SCENES)
def test_another_role_is_refused_and_changes_nothing(name):
    row, fields = SCENES[name]()
    before = everything()
    for role in ("viewer", "operator"):
        with pytest.raises(PermissionDenied, match="reviewer"):
            do(name, person(role, role), {"key": row.key}, fields)
    assert everything() == before


@pytest.mark.parametrize("name", SCENES)
def test_a_key_is_used_once(name):
    row, fields = SCENES[name]()
    first = do(name, person(), {"key": row.key}, fields)
    after = everything()
    again = do(name, person(), {"key": row.key}, fields)
    assert (again.repeated, again.entry, everything()) == (True, first.entry, after)
    assert again.result.location == f"/failures/{row.key}/"


@pytest.mark.parametrize("name", SCENES)
def test_an_older_version_changes_nothing(name):
    row, fields = SCENES[name]()
    cluster_assign(cluster=row, assignee=person("rolf"), user=None)
    version = AuditEntry.objects.latest("pk").pk
    before = everything()
    with pytest.raises(Outdated) as told:
        do(name, person(), {"key": row.key}, fields, version=version - 1)
    assert told.value.now == {"version": version} and everything() == before
    assert do(name, person(), {"key": row.key}, fields, version=version).entry


@pytest.mark.parametrize("name", SCENES)
def test_it_is_undone_once_and_by_a_reviewer_alone(name):
    row, fields = SCENES[name]()
    before = facts()
    entry = do(name, person(), {"key": row.key}, fields).entry
    assert facts() != before and standing(entry) == UNDO
    with pytest.raises(PermissionDenied):
        runner.undo(entry, user=person("otto", "operator"))
    runner.undo(entry, user=person("rolf"), key="u")
    assert facts() == before and standing(entry) == UNDONE
    after = everything()
    runner.undo(entry, user=person("rolf"), key="u")
    with pytest.raises(ActionRefused, match="undone"):
        runner.undo(entry, user=person("rolf"), key="v")
    assert everything() == after


def test_it_is_not_undone_once_something_else_has_changed_it():
    row, fields = SCENES["cluster.assign"]()
    entry = do("cluster.assign", person(), {"key": row.key}, fields).entry
    cluster_assign(cluster=row, assignee=None, user=None)
    before = everything()
    assert standing(entry) == CHANGED
    with pytest.raises(ActionRefused, match="changed since"):
        runner.undo(entry, user=person())
    assert everything() == before


def test_an_undo_takes_a_number_and_is_not_undone_itself():
    row, _ = plain()
    entry = do("cluster.mute", person(), {"key": row.key}, {}).entry
    with pytest.raises(PermissionDenied):
        do("cluster.undo", person("otto", "operator"), {"key": row.key}, {"action": entry.pk}, key="u")
    undo = do("cluster.undo", person(), {"key": row.key}, {"action": entry.pk}, key="u")
    assert (undo.result.message, FailureCluster.objects.get(pk=row.pk).muted_at) == ("Undone.", None)
    (shown,) = trail_rows([undo.entry], person())
    assert (shown.text, shown.may) == ("Undone: muted at 1 failure", False)
    before = everything()
    for action in (entry.pk, undo.entry.pk, 10**6):
        with pytest.raises(ActionRefused):
            do("cluster.undo", person(), {"key": row.key}, {"action": action}, key="v")
    assert everything() == before


def test_only_a_part_of_the_cluster_is_split_off():
    row, fields = pair()
    other = FailureCluster.objects.get(key=fields["into"])
    with pytest.raises(FieldsRefused, match="not merged into this one"):
        do("cluster.split", person(), {"key": row.key}, {"part": other.key})
    cluster_merge(cluster=row, into=other, user=None)
    do("cluster.split", person(), {"key": other.key}, {"part": row.key})
    assert FailureCluster.objects.get(pk=row.pk).merged_into is None


def test_one_part_of_a_scope_is_enough():
    row, _ = plain()
    do("cluster.propose", person(), {"key": row.key}, {"claim": CLAIM, "arch": "sm_90"})
    assert Rule.objects.get().version.scope == Scope(arch="sm_90")


def test_a_program_names_the_version_that_it_read():
    row, reviewer = plain()[0], client_of("reviewer")
    path = f"/api/v1/acts/cluster.mute/{row.key}"
    old = reviewer.post(path, json.dumps({}), "application/json", headers={"If-Match": '"7"'})
    assert old.status_code == 409 and old.json()["now"] == {"version": 0}
    assert reviewer.post(path, json.dumps({}), "application/json", headers={"If-Match": '"0"'}).status_code == 200


def test_the_activity_log_reads_a_page_in_a_constant_number_of_queries():
    def queries() -> int:
        entries = list(AuditEntry.objects.filter(object_type="cluster").select_related("actor"))
        with CaptureQueriesContext(connection) as found:
            assert all(row.subject.url for row in trail_rows(entries, user))
        return len(found)

    user, run = person(), make_run()
    first, second = cluster_of(run), cluster_of(run, UNKNOWN)
    cluster_assign(cluster=first, assignee=user, user=user)
    queries()  # the roles of the user are read once
    one = queries()
    cluster_mute(cluster=second, user=user)
    cluster_merge(cluster=first, into=second, user=user)
    cluster_assign(cluster=second, assignee=user, user=user)
    assert queries() == one
