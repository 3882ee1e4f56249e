"""Every told node that did not pass is kept, whichever way it came; a rebuild keeps what people decided."""

from __future__ import annotations

from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.utils import timezone

from memory.failures import services as service
from memory.failures.models import Failure, FailureCluster
from memory.failures.services import failures_recluster
from search.engine.failures import failures_keep, failures_rebuild
from search.interchange.imports import search_import
from search.records.models import Node
from tests.memory.decisions import cluster_assign, cluster_merge, cluster_mute
from tests.memory.failure_rows import DTYPE, UNKNOWN, cluster_of, failed, told
from tests.search.fakes import FakeBench, wrong
from tests.search.makers import Worker, make_run
from tests.search.recorded import packed, step

pytestmark = pytest.mark.django_db


def test_a_told_node_s_fingerprint_is_its_cluster_s_key():
    run = Worker(bench=FakeBench(outcomes={0: wrong()})).run(make_run(steps=2))
    failure = Failure.objects.get(run=run)
    assert failure.node.fingerprint == failure.cluster.key
    assert (failure.cluster.stage, failure.cluster.kind, failure.cluster.pattern) == (
        "correctness",
        "value.mismatch",
        "values-wrong",
    )
    assert failure.cost_s is not None


def test_an_imported_search_keeps_its_failures_their_cost_unknown():
    steps = [step(1, 0), step(2, 1, fast_p=0, error=f"builtins.TypeError: {DTYPE}"), step(3, 0, fast_p=0)]
    run = search_import(data=packed(steps), name="kb.json")
    rows = {failure.node.number: failure for failure in Failure.objects.filter(run=run)}
    assert {number: row.cluster.pattern for number, row in rows.items()} == {2: "dtype-called", 3: "values-wrong"}
    assert all(row.cost_s is None and row.node.fingerprint == row.cluster.key for row in rows.values())


def test_keeping_a_node_twice_changes_nothing():
    run = make_run()
    node = told(run, DTYPE)
    for _ in range(2):
        failures_keep(run=run, nodes=[node], now=timezone.now())
    assert (Failure.objects.count(), FailureCluster.objects.count()) == (1, 1)


def test_stage_kind_and_operator_part_what_the_message_does_not():
    run = make_run()
    keys = {
        failed(run, DTYPE).cluster_id,
        failed(run, DTYPE, stage="compile", reason="compile.error").cluster_id,
        failed(run, "AssertionError: Both operands must be same dtype. Got fp32 and fp16").cluster_id,
    }
    assert len(keys) == 3
    assert set(FailureCluster.objects.values_list("operator", flat=True)) == {"", "tl.dot"}


def test_what_two_front_ends_say_of_one_cause_is_one_cluster():
    run = make_run()
    texts = ("TypeError: 'tensor' object does not support item assignment", "ValueError: unsupported tensor index: 0")
    assert len({failed(run, text).cluster_id for text in texts}) == 1


def test_a_rebuild_keeps_old_nodes_and_labels_them():
    run = make_run()
    node = told(run, DTYPE)
    Node.objects.filter(pk=node.pk).update(fingerprint="oldoldoldold")
    done = failures_rebuild()
    node.refresh_from_db()
    assert (done.kept, done.relabelled) == (1, 1)
    assert node.fingerprint == Failure.objects.get(node=node).cluster.key
    assert (failures_rebuild().kept, failures_rebuild().relabelled) == (0, 0)


def test_the_command_tells_what_it_did_and_how_many_failures_have_a_named_cause():
    run, out = make_run(), StringIO()
    told(run, DTYPE), told(run, UNKNOWN), failed(run, UNKNOWN)
    call_command("failures_rebuild", stdout=out)
    assert "3 failures, 2 of them new;" in out.getvalue()
    assert out.getvalue().endswith("2 clusters; 33.3% of the failures have a named cause\n")


def test_a_rebuild_keeps_what_people_decided_and_asks_moved_failures_again(monkeypatch):
    person = User.objects.create_user("rita")
    run = make_run()
    kept, stale = failed(run), failed(run, UNKNOWN)
    Failure.objects.filter(pk=stale.pk).update(lesson="nothing", lesson_why="unknown")
    cluster_assign(cluster=kept.cluster, assignee=person, user=person)
    cluster_mute(cluster=kept.cluster, user=person)
    plain = service.fingerprint

    def newer(stage, kind, message):
        return plain(stage, kind, DTYPE if message == UNKNOWN else message)

    monkeypatch.setattr(service, "fingerprint", newer)
    done = failures_recluster()
    stale.refresh_from_db()
    cluster = FailureCluster.objects.get()
    assert (done.seen, done.moved, done.emptied) == (2, 1, 1)
    assert (cluster, cluster.assignee, cluster.muted_count) == (kept.cluster, person, 1)
    assert (stale.cluster, stale.lesson) == (cluster, "")


def test_a_rebuild_leaves_a_cluster_that_others_were_merged_into():
    run = make_run()
    into, other = cluster_of(run, UNKNOWN), cluster_of(run)
    cluster_merge(cluster=other, into=into, user=None)
    Failure.objects.filter(cluster=into).delete()
    assert failures_recluster().emptied == 0
    other.refresh_from_db()
    assert other.merged_into == into


def test_failures_of_old_nodes_are_kept_in_the_order_they_were_told():
    run = make_run()
    first, second = told(run, DTYPE), told(run, UNKNOWN)
    Node.objects.filter(pk=first.pk).update(told_order=7)
    Node.objects.update(told_at=timezone.now())
    failures_rebuild()
    assert list(Failure.objects.order_by("pk").values_list("node_id", flat=True)) == [second.pk, first.pk]
