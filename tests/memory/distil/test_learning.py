"""A failure is learned from once, whoever asks and how often."""

from __future__ import annotations

import threading

import pytest
from django.db import connection
from django.utils import timezone

from judge.values import Outcome, Verdict
from memory.distil.distillers import DistilLater, TableDistiller
from memory.distil.services import failure_learn
from memory.failures.models import Failure
from memory.prompting.choices import MemoryChoice
from memory.rules.models import Rule, Sighting
from search import tasks
from search.engine import driver
from search.records.queue import FollowUp
from tests.memory.failure_rows import DTYPE, UNKNOWN, failed
from tests.search.fakes import FakeBench, wrong
from tests.search.makers import Worker, make_run


class Away:
    def distil(self, facts):
        raise DistilLater("the endpoint is away")


def learn(failure: Failure, distiller=None):
    return failure_learn(failure_id=failure.pk, distiller=distiller or TableDistiller())


def broken() -> Outcome:
    return Outcome(Verdict.CRASHED, stage="smoke", reason="run.exception", message=DTYPE, loads=True)


@pytest.mark.django_db
def test_two_failures_of_one_cause_support_one_rule():
    run = make_run()
    first, second = learn(failed(run)), learn(failed(run))
    assert first is not None and second is not None and first.rule == second.rule
    rule = Rule.objects.get()
    assert (rule.state, rule.origin, rule.pattern, rule.sightings.count()) == ("proposed", "pattern", "dtype-called", 2)
    assert set(Failure.objects.values_list("lesson", flat=True)) == {"rule"}


@pytest.mark.django_db
def test_a_second_time_changes_nothing():
    failure = failed(make_run())
    learn(failure)
    assert learn(failure) is None
    assert (Rule.objects.count(), Sighting.objects.count()) == (1, 1)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("changes", "lesson"),
    [
        ({"message": UNKNOWN}, "nothing"),
        ({"verdict": "timed_out", "reason": "run.timeout"}, "unfit"),
        ({"verdict": "dishonest", "reason": "tamper.harness"}, "unfit"),
    ],
)
def test_what_does_not_teach_says_why(changes, lesson):
    failure = failed(make_run(), **changes)
    learn(failure)
    failure.refresh_from_db()
    assert failure.lesson == lesson and failure.lesson_why
    assert not Rule.objects.exists()


@pytest.mark.django_db
def test_a_fault_of_the_endpoint_leaves_the_failure_for_later():
    failure = failed(make_run())
    assert learn(failure, Away()) is None
    assert learn(failure) is not None


@pytest.mark.django_db
def test_one_that_is_gone_is_no_error():
    assert failure_learn(failure_id=10**9, distiller=TableDistiller()) is None


@pytest.mark.django_db(transaction=True)
def test_two_workers_at_once_give_one_sighting():
    failure = failed(make_run())
    gate, found = threading.Barrier(2), []

    class Slow(TableDistiller):
        def distil(self, facts):
            gate.wait(timeout=120)
            return super().distil(facts)

    def work():
        try:
            found.append(learn(failure, Slow()))
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert sorted(row is None for row in found) == [False, True]
    assert (Rule.objects.count(), Sighting.objects.count()) == (1, 1)


@pytest.mark.django_db
def test_a_search_that_learns_sends_each_failure_to_the_learner():
    worker = Worker(bench=FakeBench(outcomes={0: broken(), 1: wrong()}))
    run = worker.run(make_run(steps=3, memory=MemoryChoice(learns=True)))
    failures = list(Failure.objects.filter(run=run).order_by("pk"))
    assert [follow_up.target for follow_up in worker.done if follow_up.task == "learn"] == [
        failure.pk for failure in failures
    ]
    assert [failure.lesson for failure in failures] == ["rule", "nothing"]


@pytest.mark.django_db
def test_a_search_that_does_not_learn_only_keeps_them():
    worker = Worker(bench=FakeBench(outcomes={0: broken()}))
    run = worker.run(make_run(steps=2))
    assert Failure.objects.get(run=run).lesson == ""
    assert not any(follow_up.task == "learn" for follow_up in worker.done)


@pytest.mark.django_db
def test_the_reaper_sends_again_what_was_lost():
    worker = Worker(bench=FakeBench(outcomes={0: broken()}))
    run = worker.run(make_run(steps=1, memory=MemoryChoice(learns=True)))
    failure = Failure.objects.get(run=run)
    Failure.objects.update(lesson="")
    assert FollowUp("learn", failure.pk) not in worker.later(1)
    assert FollowUp("learn", failure.pk) in worker.later(120)
    assert failure.told_at <= timezone.now()


@pytest.mark.django_db
def test_the_task_called_twice_and_the_driver_learn_once():
    failure, other = failed(make_run()), failed(make_run())
    for _ in range(2):
        tasks.learn(failure.pk)
    assert driver._do(FollowUp("learn", other.pk), None, None) == []
    assert Rule.objects.get().sightings.count() == 2
