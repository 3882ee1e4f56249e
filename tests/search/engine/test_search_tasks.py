"""Celery's doors: names and queues, each delivered twice, a broker that is away."""

from __future__ import annotations

import logging

import pytest
from django.conf import settings
from kombu.exceptions import OperationalError

from search import tasks
from search.records import queue
from search.records.models import Run
from search.records.queue import FollowUp
from tests.search.fakes import FakeBench, ScriptedProposer
from tests.search.makers import make_run, told

pytestmark = pytest.mark.django_db


class Post:
    """Collects what would go to the broker."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, list[int], str, float | None]] = []

    def send_task(self, name, *, args, queue, countdown):
        self.sent.append((name, args, queue, countdown))


@pytest.fixture
def post(monkeypatch):
    post = Post()
    monkeypatch.setattr(queue, "current_app", post)
    return post


def test_tasks_have_the_names_the_queues_know():
    names = {task.name for task in (tasks.advance, tasks.propose, tasks.judge_node, tasks.reap)}
    assert names == {f"search.tasks.{name}" for name in ("advance", "propose", "judge_node", "reap")}
    each = (
        tasks.reap,
        tasks.reap_rechecks,
        tasks.watch_budget,
        tasks.carry_campaigns,
        tasks.carry_adapts,
        tasks.carry_jobs,
    )
    beats = {row["task"] for row in settings.CELERY_BEAT_SCHEDULE.values()}
    assert {task.name for task in each} <= beats  # a task of its own each: what fails in one keeps no other back


def test_a_run_goes_from_task_to_task_each_delivered_twice(post, monkeypatch):
    bench, proposer = FakeBench(), ScriptedProposer()
    monkeypatch.setattr(tasks, "bench_for", bench)
    monkeypatch.setattr(tasks, "get_proposer", proposer)
    run = make_run(steps=2)
    tasks.send([FollowUp("advance", run.pk)])
    queues = []
    while post.sent:
        name, args, queue, _ = post.sent.pop(0)
        queues.append((name.removeprefix("search.tasks."), queue))
        task = getattr(tasks, name.removeprefix("search.tasks."))
        task(*args)
        follow = len(post.sent)
        task(*args)
        assert len(post.sent) == follow
    run.refresh_from_db()
    assert (run.state, len(told(run))) == (Run.State.FINISHED, 2)
    assert queues[:3] == [("advance", "io"), ("propose", "io"), ("judge_node", "device.interpreter")]


def test_reaping_twice_asks_for_an_idle_run_and_changes_nothing(post):
    run = make_run()
    tasks.reap()
    tasks.reap()
    assert post.sent == [("search.tasks.advance", [run.pk], "io", None)] * 2
    assert run.nodes.count() == 1


def test_a_broker_that_is_away_is_left_to_the_reaper(monkeypatch, caplog):
    class Away:
        def send_task(self, *args, **options):
            raise OperationalError("refused")

    monkeypatch.setattr(queue, "current_app", Away())
    with caplog.at_level(logging.WARNING, logger="search.records.queue"):
        tasks.send([FollowUp("advance", 1), FollowUp("propose", 2, delay_s=3)])
    assert len(caplog.records) == 2


@pytest.mark.parametrize("name", ["compose", "admit"])
def test_what_follows_a_task_of_an_adapt_run_is_sent(post, monkeypatch, name):
    done = []

    def work(task_id, **given):
        done.append(task_id)
        return [FollowUp("admit_task", task_id, queue="device.interpreter")] if len(done) == 1 else []

    monkeypatch.setattr(tasks.ADAPTS, name, work)
    for _ in range(2):
        getattr(tasks, f"{name}_task")(7)
    assert (done, post.sent) == ([7, 7], [("search.tasks.admit_task", [7], "device.interpreter", None)])


def test_a_delay_becomes_a_countdown(post):
    tasks.send([FollowUp("propose", 2, delay_s=3.0)])
    assert post.sent == [("search.tasks.propose", [2], "io", 3.0)]
