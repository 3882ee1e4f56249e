"""Whatever dies, however often a message comes: an adapt run ends with its tasks and both searches of each."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from judge.values import JudgeError
from memory.adapt.models import AdaptRun, AdaptTask
from search.batches import adapts as advancing
from search.batches import adapts as tasks
from search.batches import engine
from search.batches.adapts import ADAPTS
from search.records.models import Run
from tests.search.adapt_rows import AdaptWorker, ScriptedWriter, assert_exact, make_adapt
from tests.search.fakes import Killed

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("search", [1, 2])
def test_a_death_while_the_searches_of_a_task_start_leaves_none_of_them(search, monkeypatch):
    adapt, worker = make_adapt(), AdaptWorker()
    start, calls = advancing.run_start, iter(range(1, 99))

    def killed(**given):
        run = start(**given)
        if next(calls) == search:
            raise Killed
        return run

    monkeypatch.setattr(advancing, "run_start", killed)
    with pytest.raises(Killed):
        worker.work(worker.beat())
    assert not Run.objects.exists()
    assert_exact(worker.complete(adapt))


def test_a_machine_that_cannot_list_operators_pauses_the_run_and_refuses_no_task():
    adapt, worker = make_adapt(), AdaptWorker()
    works = worker.write

    def broken(*args, **given):
        raise JudgeError("torch's operators could not be listed")

    worker.write = broken
    worker.work(worker.beat())
    adapt.refresh_from_db()
    assert adapt.state == AdaptRun.State.PAUSED and "could not be listed" in adapt.stop_reason
    assert set(adapt.entries.values_list("state", flat=True)) == {AdaptTask.State.WAITING}
    worker.write = works
    ADAPTS.resume(adapt, user=None)
    assert_exact(worker.complete(adapt))


def test_a_proposer_that_cannot_work_any_more_pauses_the_run_and_refuses_no_task(settings):
    adapt, worker = make_adapt(), AdaptWorker()
    AdaptRun.objects.update(proposer="openai", proposer_options={})
    settings.LLM_API_KEY = settings.LLM_MODEL = ""
    worker.work(worker.beat())
    adapt.refresh_from_db()
    assert adapt.state == AdaptRun.State.PAUSED and adapt.stop_reason.startswith("No search can start: ")
    assert set(adapt.entries.values_list("state", flat=True)) == {AdaptTask.State.WAITING}
    AdaptRun.objects.update(proposer="builtin")
    ADAPTS.resume(adapt, user=None)
    assert_exact(worker.complete(adapt))


@pytest.mark.parametrize("place", ["while it writes", "before it is kept", "during the preflight"])
def test_a_death_on_the_way_to_a_task_is_made_good(place, monkeypatch):
    deaths = iter([True])

    def dying(act):
        def once(*args, **given):
            if next(deaths, False):
                raise Killed
            return act(*args, **given)

        return once

    adapt, worker = make_adapt(), AdaptWorker()
    if place == "while it writes":
        worker.write = dying(ScriptedWriter())
    else:
        name = "problem_upload" if place == "before it is kept" else "problem_admit"
        room = tasks if place == "before it is kept" else engine
        monkeypatch.setattr(room, name, dying(getattr(room, name)))
    with pytest.raises(Killed):
        worker.work(worker.beat())
    worker.work(worker.beat(400))
    assert_exact(worker.complete(adapt))


def test_whoever_drives_takes_over_a_preflight_that_was_begun_before_it_came(monkeypatch):
    adapt, worker = make_adapt(), AdaptWorker()
    task_id = ADAPTS.advance(adapt.pk)[0].target
    ADAPTS.compose(task_id, write=worker.write)

    def killed(**given):
        problem_admit(**given | {"bench": Dying()})

    class Dying:
        def admit(self, problem, **kw):
            raise Killed

    problem_admit = engine.problem_admit
    monkeypatch.setattr(engine, "problem_admit", killed)
    with pytest.raises(Killed):
        ADAPTS.admit(task_id, bench_for=worker.bench)
    monkeypatch.setattr(engine, "problem_admit", problem_admit)
    before = timezone.now()
    ADAPTS.admit(task_id, bench_for=worker.bench, since=before - timedelta(seconds=60))
    assert worker.bench.admitted == 0
    ADAPTS.admit(task_id, bench_for=worker.bench, since=before)
    assert worker.bench.admitted == 1
