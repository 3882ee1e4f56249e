"""Of equally fast kernels the lower node number is the best, everywhere and whatever the order of telling."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from search.algorithm.decide import component_best
from search.algorithm.ranking import rank
from search.algorithm.tree import Fact, Tree
from search.interchange.packed import packed_document
from search.live.chart import chart_of
from search.live.columns import node_columns
from search.records.models import Node, Run
from search.records.queries import best_node, best_number, run_summary, run_tree
from search.records.queue import FollowUp
from search.replay.check import replay_run
from search.reports.build import report_of
from tests.search.fakes import FakeBench, passed
from tests.search.makers import Worker, make_run

FORMULA = "node.x > best.x || (node.x === best.x && node.n < best.n)"


def tied_run() -> Run:
    """Three equally fast, audited kernels, told in the order 3, 2, 1."""
    run = make_run(steps=3, concurrency=3)
    worker = Worker(bench=FakeBench({k: passed(2.0) for k in range(3)}))
    worker.work(reversed(worker.do(FollowUp("advance", run.pk))))
    run.refresh_from_db()
    told = dict(run.nodes.exclude(number=0).values_list("number", "told_order"))
    assert told == {1: 3, 2: 2, 3: 1} and run.ended
    return run


@pytest.mark.django_db
def test_every_reader_names_the_same_best_of_equally_fast_kernels():
    run = tied_run()
    document = packed_document(run)
    (block,) = report_of([run], title="ties").blocks
    ended = run.events.get(kind="run.ended").payload["best"]
    columns = node_columns(run)
    assert {
        "tree": run_tree(run).best,
        "row": best_node(run.pk).number,
        "summary": run_summary(run).best,
        "log": ended,
        "packed": document["steps"][-1]["global_best_node_id"],
        "report": block.lines[0].number,
        "chart": chart_of(columns).records[-1],
    } == dict.fromkeys(("tree", "row", "summary", "log", "packed", "report", "chart"), 1)
    assert replay_run(run).equal


@pytest.mark.django_db
def test_what_was_not_audited_is_no_best_of_the_chart_either():
    run = tied_run()
    node = run.nodes.select_related("evaluation").get(number=1)
    node.evaluation.audit = ""
    node.evaluation.save()
    columns = node_columns(run)
    assert columns["a"] == [0, 0, 2, 2]
    assert chart_of(columns).records[-1] == run_tree(run).best == 2


def test_a_pool_shows_the_same_one():
    facts = [Fact(0, None, Node.Kind.ROOT, 0, 0.0, None, False)]
    facts += [Fact(k, parent, kind, 4 - k, 0.6, 2.0, True) for k, parent, kind in [(1, 0, "large"), (2, 1, "small")]]
    assert component_best(Tree.replay(facts)[1]).number == 1


def test_the_rule_says_faster_then_lower_number_and_the_browser_says_it_too():
    assert sorted([(2.0, 3), (3.0, 9), (None, 1), (2.0, 2)], key=lambda kernel: rank(*kernel), reverse=True) == [
        (3.0, 9), (2.0, 2), (2.0, 3), (None, 1),
    ]  # fmt: skip
    script = Path(__file__).parents[3] / "static" / "js" / "store.js"
    assert FORMULA in re.sub(r"\s+", " ", script.read_text(encoding="utf-8"))


def test_no_rows_have_no_best():
    assert best_number([]) is None
