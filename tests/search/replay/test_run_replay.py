"""A run replayed from its log comes out as it is stored; whatever was altered is named."""

from __future__ import annotations

import contextlib
import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from adaexplore_site.core.audit import ActionRefused
from search.algorithm.params import SearchParams
from search.interchange.imports import search_import
from search.interchange.recording import OWN
from search.records.facts import node_rows
from search.records.models import Node, Run, RunEvent
from search.records.queue import FollowUp
from search.replay.check import Rebuilt, log_of, replay_run
from search.replay.what_if import what_if
from tests.search.fakes import FakeBench, passed, wrong
from tests.search.makers import Worker, make_run
from tests.search.recorded import packed, step
from tests.search.steered import steer_params, steer_pin, steer_prune

pytestmark = pytest.mark.django_db


def finished(**changes: object) -> Run:
    bench = FakeBench({1: wrong(), 2: passed(3.0), 4: passed(0.5)})
    return Worker(bench=bench).run(make_run(steps=12, **changes))


@pytest.mark.parametrize("concurrency", [1, 4, 16])
def test_a_finished_run_comes_out_again(concurrency):
    found = replay_run(finished(concurrency=concurrency))
    assert found.first is None
    assert (found.decisions, found.agreed, found.parents, found.told) == (12, 12, 12, 12)


def test_a_run_in_progress_comes_out_again_with_its_next_decision():
    worker, run = Worker(), make_run(steps=9, concurrency=3)
    for follow_up in worker.do(FollowUp("advance", run.pk)):
        worker.do(follow_up)
    assert replay_run(run).first is None


def test_pins_and_prunes_come_out_again():
    worker, run = Worker(), make_run(steps=12, concurrency=2)
    follow_ups = [FollowUp("advance", run.pk)]
    for turn in range(60):
        follow_ups = [*follow_ups[1:], *worker.do(follow_ups[0])] if follow_ups else []
        if turn == 9:
            steer_pin(run=run, number=1, quota=3, user=None)
        if turn == 20:
            steer_prune(run=run, number=2, user=None)
    found = replay_run(run)
    assert (found.first, found.acts, found.agreed) == (None, 2, 12)


def test_a_reward_changed_between_two_reservations_comes_out_again():
    worker, run = Worker(bench=FakeBench({1: passed(900.0), 2: passed(11.0)})), make_run(steps=12, concurrency=3)
    waiting = [FollowUp("advance", run.pk)]
    while run.nodes.filter(state=Node.State.COMPLETED).count() < 5:
        waiting = [*waiting[1:], *worker.do(waiting[0])]
    rebuilt = Rebuilt(SearchParams.from_json(run.params), node_rows(run.pk))
    steer_params(run=run, changes={"reward": "log", "policy": "greedy"}, user=None)
    for event in log_of(run.pk):
        assert rebuilt.tree.log == rebuilt.params.log  # looking makes the tree before the parameters change
        rebuilt.apply(event)
    assert rebuilt.params.log and rebuilt.tree.log
    worker.work(waiting)
    assert replay_run(run).first is None


@pytest.mark.parametrize(
    ("alter", "what"),
    [
        (lambda run: run.nodes.filter(number=7).update(context=[1]), "context of node 7"),
        (lambda run: run.nodes.filter(number=5).update(why={}), "scores of node 5"),
        (lambda run: run.nodes.filter(number=3).update(parent=run.nodes.get(number=1)), "parent of node 3"),
        (lambda run: Run.objects.update(steps=13), "budget of the run"),
        (lambda run: Run.objects.update(seed=2), "of node"),
        (lambda run: RunEvent.objects.filter(run=run, kind="node.best").last().delete(), "number of the event"),
    ],
)
def test_what_was_altered_is_named(alter, what):
    run = finished()
    alter(run)
    found = replay_run(Run.objects.get(pk=run.pk))
    assert found.first is not None and what in found.first.what


@pytest.mark.parametrize("kind", ["node.reserved", "node.told"])
@pytest.mark.parametrize("number", (1, 5, 12))
def test_a_log_with_an_event_missing_or_doubled_is_a_difference_and_no_crash(kind, number):
    run = finished()
    event = run.events.get(kind=kind, payload__number=number)
    event.delete()
    assert replay_run(run).first is not None
    with contextlib.suppress(ActionRefused):  # refused in words where the log cannot be followed
        what_if(run, {"policy": "greedy"}, 12)
    event.pk = None
    event.save()
    run.events.filter(seq__gt=event.seq, seq__lt=event.seq + 2).delete()
    event.pk, event.seq = None, event.seq + 1
    event.save()
    assert replay_run(run).first is not None


def test_a_verdict_altered_afterwards_is_named():
    run = finished()
    run.nodes.get(number=3).evaluation.__class__.objects.filter(nodes__number=3).update(speedup=9.0)
    assert "node 3" in replay_run(run).first.what


def test_the_command_says_what_agrees_and_ends_with_status_1_when_something_differs():
    run, out = finished(), StringIO()
    call_command("replay_run", str(run.pk), stdout=out)
    assert "decisions 12/12" in out.getvalue() and "are equal" in out.getvalue()
    Node.objects.filter(run=run, number=7).update(context=[99])
    with pytest.raises(CommandError, match="1 of 1 runs differ"):
        call_command("replay_run", str(run.pk), "--json", stdout=(out := StringIO()))
    assert json.loads(out.getvalue())["first"]["recorded"] == [99]
    with pytest.raises(CommandError, match="no search 999"):
        call_command("replay_run", "999")


def test_every_parent_of_a_published_search_is_selected_again_from_its_log(fixtures_dir):
    data = (fixtures_dir / "recorded_searches" / "kb-l2-p63-200.json.gz").read_bytes()
    found = replay_run(search_import(data=data, name="kb.json.gz"))
    assert (found.first, found.parents, found.decisions, found.imported) == (None, 200, 200, True)


def test_an_imported_run_says_what_can_be_replayed():
    data = packed([step(1, 0), step(2, 1, kind="small_step", context=[1]), step(3, 1, fast_p=0)])
    run, out = search_import(data=data, name="kept.json"), StringIO()
    call_command("replay_run", str(run.pk), stdout=out)
    assert "draws were not recorded" in out.getvalue() and "are equal" in out.getvalue()


def test_an_imported_run_with_a_withdrawn_node_is_what_its_log_says():
    own = {OWN: {"withdrawn": [{"node_id": 2, "parent_node_id": 1, "created_by": "small_step"}]}}
    run = search_import(data=packed([step(1, 0), step(3, 1)], **own), name="stopped.json")
    assert (run.nodes.count(), replay_run(run).first) == (4, None)
