"""A verdict that was known before costs no device time, wherever device time is counted."""

from __future__ import annotations

import pytest

from search.batches.adapts import ADAPTS
from search.batches.budgets import spent_of
from search.ledger.books import ledger_of
from search.ledger.models import Spending
from search.live.panels import budget_panel
from search.pictures.book import Book
from search.proposers.protocol import Reply
from search.records.models import Node, Run
from tests.search.adapt_rows import AdaptWorker, make_adapt
from tests.search.campaign_rows import AdmittingBench
from tests.search.fakes import ScriptedProposer
from tests.search.ledger.test_budgets import SlowBench, limited
from tests.search.makers import Worker, make_run, told

pytestmark = pytest.mark.django_db
STEPS = 6


def same() -> ScriptedProposer:
    """Every step has the same kernel, differently written."""
    return ScriptedProposer({n: lambda task: Reply(source=f"class ModelNew: pass  # {task.number}") for n in range(9)})


class SlowAdmittingBench(SlowBench, AdmittingBench):
    """Examines problems, too."""


@pytest.fixture
def known() -> Run:
    """A search that began when its one kernel had a verdict from another search, with room for one evaluation."""
    Worker(same(), SlowBench()).run(make_run(steps=1, seed=2))
    run = limited(steps=STEPS, device_s=2.0, evaluations=1)
    return Worker(same(), SlowBench()).run(run)


def test_a_limit_of_device_time_is_not_used_up_by_known_verdicts(known):
    assert (known.state, len(told(known))) == (Run.State.FINISHED, STEPS)
    assert set(known.nodes.exclude(number=0).values_list("reused", "evaluation__wall_ms")) == {(True, 1500.0)}
    spent = ledger_of(known.pk).spent
    assert (spent.steps, spent.evaluations, spent.device_ms) == (STEPS, 0, 0)


def test_the_sums_of_spending_hold_what_was_saved_and_no_device_time(known):
    rows = Spending.objects.filter(run=known)
    assert [(row.device_ms, row.reused, row.saved_ms) for row in rows] == [(0, STEPS, 1500.0 * STEPS)]


def test_pages_and_pictures_show_no_device_time(known):
    panel = budget_panel(known)
    (line,) = (line for line in panel.lines if line.name == "device_ms")
    assert (line.share, panel.reused, panel.saved_s) == (0, STEPS, 1.5 * STEPS)
    assert Book(known).device_ms == {}


def test_an_adapt_run_pays_for_its_preflights_alone_where_every_verdict_was_known():
    first = AdaptWorker(bench=SlowAdmittingBench()).complete(make_adapt(tasks=2))
    assert spent_of(first).device_s > spent_of(first).preflight_s
    again = AdaptWorker(bench=SlowAdmittingBench()).complete(make_adapt(tasks=2))
    nodes = Node.objects.filter(run__in=ADAPTS.searches(again), evaluation__isnull=False)
    assert nodes.exists() and not nodes.filter(reused=False).exists()
    assert spent_of(again).device_s == spent_of(again).preflight_s
