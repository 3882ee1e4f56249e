"""Real threads against the real database: duplicates delivered at the same moment, leases renewed, sequence numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone

from search.engine import leases
from search.engine.leases import QUEUED, lease_kept, lease_renew, node_claim
from search.interchange.imports import search_import
from search.records.events import RunPaused
from search.records.log import event_write
from search.records.models import Node, Run
from search.records.queue import FollowUp
from tests.search.makers import Worker, kinds, make_run, told
from tests.search.recorded import packed, quick_hashes, step  # noqa: F401
from tests.search.steered import run_remove

pytestmark = pytest.mark.django_db(transaction=True)


def together(count: int, act: Callable[[int], object]) -> list[object]:
    """The results of `act(k)` in `count` threads that start at the same moment; exceptions are raised."""
    gate = threading.Barrier(count)

    def body(k: int) -> object:
        gate.wait(timeout=120)
        try:
            return act(k)
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(body, range(count)))


def test_a_hop_delivered_four_times_at_once_happens_once():
    worker, run = Worker(), make_run(steps=2)
    follow_up = FollowUp("advance", run.pk)
    for _ in range(6):
        follow = [
            follow_ups for follow_ups in together(4, lambda _, follow_up=follow_up: worker.do(follow_up)) if follow_ups
        ]
        assert len(follow) <= 1
        if follow and follow[0]:
            follow_up = follow[0][0]
    run.refresh_from_db()
    assert (run.state, len(told(run))) == (Run.State.FINISHED, 2)
    assert (len(worker.proposer.tasks), len(worker.bench.jobs)) == (2, 2)


def test_three_workers_and_a_reaper_drain_a_run_without_doubling():
    run = make_run(steps=8, concurrency=3)

    def work(k: int) -> None:
        worker = Worker()
        for _ in range(40):
            worker.work([FollowUp("advance", run.pk)])
            worker.work(worker.later(0) if k == 0 else [])
            if Run.objects.get(pk=run.pk).ended:
                return

    together(3, work)
    run.refresh_from_db()
    assert (run.state, len(told(run))) == (Run.State.FINISHED, 8)
    assert kinds(run).count("node.told") == 8


def test_the_same_form_sent_twice_at_once_starts_one_run():
    make_run(key="first")
    runs = together(3, lambda _: make_run(key="double").pk)
    assert len(set(runs)) == 1
    assert Run.objects.count() == 2


def test_events_written_at_once_have_no_gaps():
    run = make_run()

    def write(k: int) -> None:
        for _ in range(5):
            with transaction.atomic():
                event_write(run=Run.objects.get(pk=run.pk), event=RunPaused(by=str(k)))

    together(3, write)
    assert len(kinds(run)) == 16


def test_a_lease_is_renewed_while_the_work_goes_on():
    worker, run = Worker(), make_run()
    worker.do(FollowUp("advance", run.pk))
    node = run.nodes.get(number=1)
    past = timezone.now() - timedelta(seconds=1)
    assert node_claim(node_id=node.pk, state=Node.State.PROPOSING, owner="me", now=past - timedelta(seconds=30))
    renewed = threading.Event()
    with lease_kept(node_id=node.pk, owner="me", every_s=0.02):
        for _ in range(200):
            node.refresh_from_db()
            if node.lease_until > timezone.now():
                renewed.set()
                break
            threading.Event().wait(0.02)
    assert renewed.is_set()


def test_a_database_that_is_away_for_a_moment_costs_no_lease(monkeypatch):
    answers = iter([OperationalError("database is locked"), True, False])
    asked = threading.Event()

    def renew(**_: object) -> bool:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        if not answer:
            asked.set()
        return answer

    monkeypatch.setattr(leases, "lease_renew", renew)
    with lease_kept(node_id=1, owner="me", every_s=0.01):
        assert asked.wait(timeout=120)


def test_a_lease_can_be_claimed_and_renewed_by_its_owner_only():
    worker, run = Worker(), make_run()
    worker.do(FollowUp("advance", run.pk))
    node, now = run.nodes.get(number=1), timezone.now()
    assert node.lease_owner == QUEUED
    assert node_claim(node_id=node.pk, state=Node.State.PROPOSING, owner="a", now=now)
    assert not node_claim(node_id=node.pk, state=Node.State.PROPOSING, owner="b", now=now)
    assert not lease_renew(node_id=node.pk, owner="b", now=now)
    assert lease_renew(node_id=node.pk, owner="a", now=now)
    assert node_claim(node_id=node.pk, state=Node.State.PROPOSING, owner="b", now=now + timedelta(seconds=31))


@pytest.mark.usefixtures("quick_hashes")
def test_who_removes_an_import_leaves_the_device_to_one_that_is_on_its_way():
    old = search_import(data=packed([step(1, 0)], label="old"), name="old.json")
    written, gone = threading.Event(), threading.Event()

    def act(k: int) -> None:
        if k == 0:
            with transaction.atomic():
                search_import(data=packed([step(1, 0), step(2, 0)], label="new"), name="new.json")
                written.set()
                gone.wait(timeout=0.5)  # before the commit the other one can see nothing of it
        else:
            assert written.wait(timeout=120)
            run_remove(run=old, user=None)
            gone.set()

    together(2, act)
    assert Run.objects.get().nodes.count() == 3
