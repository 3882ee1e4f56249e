"""What pages read: the same numbers as the rows, in few queries, fast."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from judge.evaluations.models import Evaluation
from search.records.events import RunPaused
from search.records.log import event_write
from search.records.models import Node, Run
from search.records.queries import events_since, run_summaries, run_summary, run_tree
from search.records.queue import FollowUp
from search.runs.listing import RunFilter
from tests.counting import calls_of
from tests.search.fakes import FakeBench, ScriptedProposer, passed, wrong
from tests.search.makers import Worker, make_device, make_run, told

pytestmark = pytest.mark.django_db


def test_the_tree_holds_rows_and_replayed_statistics():
    bench = FakeBench({0: passed(2.0), 1: wrong(), 2: passed(4.0)})
    run = Worker(bench=bench).run(make_run(steps=3))
    tree = run_tree(run)
    assert [node.number for node in tree.nodes] == [0, 1, 2, 3]
    root = tree.nodes[0]
    assert (root.visits, root.pending, root.parent, root.depth) == (3, 0, None, 0)
    assert root.total == pytest.approx(sum(node.reward for node in tree.nodes))
    assert tree.best == 3
    node = tree.get(1)
    assert (node.verdict, node.speedup, node.low, node.n, node.basis) == (
        "pass",
        2.0,
        pytest.approx(1.8),
        1,
        "modelled",
    )
    assert (tree.get(2).verdict, tree.get(2).reason, tree.get(2).stage) == ("wrong", "value.mismatch", "correctness")


def test_nodes_in_flight_are_pending_and_cancelled_ones_leave_no_trace():
    run = make_run()
    Worker().do(FollowUp("advance", run.pk))
    assert [(n.state, n.pending) for n in run_tree(run).nodes] == [("told", 1), ("proposing", 1)]
    run.nodes.filter(number=1).update(state=Node.State.CANCELLED)
    assert [(n.state, n.pending, n.visits) for n in run_tree(run).nodes] == [("told", 0, 0), ("cancelled", 0, 0)]


def test_the_summary_counts_and_names_the_best():
    bench = FakeBench({0: passed(2.0), 1: wrong(), 2: passed(4.0), 3: passed(3.0)})
    run = Worker(bench=bench).run(make_run(steps=4))
    summary = run_summary(run)
    assert (summary.told, summary.steps, summary.in_flight) == (4, 4, 0)
    assert summary.verdicts == {"pass": 3, "wrong": 1}
    assert (summary.best, summary.best_evaluation.speedup) == (3, 4.0)
    assert summary.spark == ((1, 2.0), (3, 4.0))
    assert summary.eta_s is None
    assert summary.elapsed_s >= 0


def test_a_running_run_has_a_median_step_and_an_estimate():
    run, worker = make_run(steps=10), Worker()
    follow_up = FollowUp("advance", run.pk)
    for _ in range(6):
        (follow_up,) = worker.do(follow_up)
    run.refresh_from_db()
    summary = run_summary(run)
    assert summary.told == 2
    assert summary.eta_s == pytest.approx(8 * summary.median_step_s)


def test_the_list_takes_the_same_number_of_queries_for_one_run_and_for_many():
    def queries():
        with CaptureQueriesContext(connection) as captured:
            found = run_summaries(RunFilter().runs())
        return len(captured), found

    Worker().run(make_run(steps=2))
    one, _ = queries()
    for seed in range(2, 6):
        Worker().run(make_run(steps=2, seed=seed))
    many, found = queries()
    assert many == one
    assert [summary.run.pk for summary in found] == sorted((s.run.pk for s in found), reverse=True)
    assert all(summary.best is not None for summary in found)


def test_the_list_filters_and_pages():
    runs = [make_run(seed=seed) for seed in range(3)]
    Run.objects.filter(pk=runs[0].pk).update(state=Run.State.PAUSED)
    assert [run.pk for run in RunFilter(state="paused").runs()] == [runs[0].pk]
    assert [run.pk for run in RunFilter().runs(before=runs[2].pk)[:1]] == [runs[1].pk]
    assert not RunFilter(device="another").runs()


def test_events_come_after_the_cursor_oldest_first():
    run = Worker().run(make_run(steps=1))
    assert [event.seq for event in events_since(run, 2, limit=3)] == [3, 4, 5]


def test_an_oversize_event_is_refused_and_takes_no_number():
    run = make_run()
    with pytest.raises(ValueError, match="over 2048 bytes"):
        event_write(run=run, event=RunPaused(by="x" * 3000))
    run.refresh_from_db()
    assert run.event_seq == 1


def test_a_node_more_costs_a_few_calls_to_read_and_no_query():
    run = make_run(steps=1000)
    nothing = [read_cost(read, run) for read in (run_tree, run_summary)]
    root = run.nodes.get()
    evaluation = Evaluation(
        problem=run.problem, device=make_device(), candidate_hash="h", verdict="pass", stage="timing"
    )
    evaluation.loads, evaluation.speedup, evaluation.basis, evaluation.audit = True, 2.0, "modelled", "passed"
    evaluation.save()
    Node.objects.bulk_create(
        Node(run=run, number=k, parent=root, kind="large", state="told", told_order=k, evaluation=evaluation)
        for k in range(1, 1001)
    )
    for read, (calls, queries) in zip((run_tree, run_summary), nothing, strict=True):
        more, as_many = read_cost(read, run)
        assert as_many <= queries + 1 and more - calls < 110 * 1000, read


def read_cost(read: Callable[[Run], object], run: Run) -> tuple[int, int]:
    """Calls and queries of one reading."""
    with CaptureQueriesContext(connection) as queries:
        read(run)
    return calls_of(lambda: read(run)), len(queries)


def test_a_reply_without_code_shows_as_bad_source_with_its_reason():
    from search.proposers.protocol import Reply

    proposer = ScriptedProposer({1: lambda task: Reply(reason="proposal.no_code", message="no block")})
    run = Worker(proposer).run(make_run(steps=1))
    node = run_tree(run).get(1)
    assert (node.verdict, node.stage, node.reason, node.reward) == ("bad_source", "proposal", "proposal.no_code", 0.0)
    assert len(told(run)) == 1
