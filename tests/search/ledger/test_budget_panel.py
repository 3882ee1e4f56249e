"""The budget panel: spent, held, limit and what is to come; unknown is said, never zero; the same by JSON."""

from __future__ import annotations

from decimal import Decimal

import pytest

from search.ledger.books import ledger_of
from search.ledger.limits import forecast, spread
from search.live.panels import budget_panel
from search.records.models import Node, Proposal, Run
from search.records.queue import FollowUp
from tests.pages import client_of
from tests.search.engine.test_sketches import LONG, answer
from tests.search.fakes import ScriptedProposer
from tests.search.ledger.test_budgets import SlowBench, billed, limited
from tests.search.makers import Worker, make_run

NOTHING = {"step_s": (), "device_s": (), "tokens": (), "usd": ()}


def test_a_forecast_is_unknown_below_three_steps_and_a_range_from_then_on():
    assert spread([1.0, 2.0], 10) is None
    span = spread([1.0, 2.0, 3.0], 10)
    assert (span.low, span.high, span.n) == (15.0, 25.0, 3)


def test_more_lanes_than_steps_left_do_not_make_it_faster():
    steps = NOTHING | {"step_s": (8.0, 8.0, 8.0)}
    assert forecast(steps_left=2, concurrency=8, **steps).wall_s.high == 8.0
    assert forecast(steps_left=16, concurrency=8, **steps).wall_s.high == 16.0


def lines(run: Run) -> dict[str, tuple[str, str, str]]:
    return {line.name: (line.spent, line.limit, line.note) for line in budget_panel(run).lines}


@pytest.mark.django_db
def test_calls_without_a_price_make_money_a_lower_bound():
    proposer = billed()
    proposer.answers[2] = billed(price=None).answers[2]
    run = Worker(proposer, SlowBench()).run(limited(steps=3, concurrency=1, usd=Decimal(4)))
    assert lines(run)["usd"] == ("at least $0.0200", "$4.00", "1 call unpriced")
    assert lines(run)["device_ms"] == ("4.5 s", "", "")


@pytest.mark.django_db
def test_a_search_that_nobody_bills_shows_no_money_and_no_tokens():
    assert set(lines(Worker().run(make_run(steps=2)))) == {"steps", "evaluations", "device_ms"} | {"tokens", "usd"}
    assert set(lines(Worker(ScriptedProposer({1: answer(LONG)})).run(make_run(steps=1)))) == {
        "steps",
        "evaluations",
        "device_ms",
    }


@pytest.mark.django_db
def test_steps_in_flight_are_held_and_given_back():
    worker, run = Worker(), limited(steps=9, evaluations=9)
    follow_ups = worker.do(FollowUp("advance", run.pk))
    held = {line.name: line.held for line in budget_panel(run).lines}
    assert (held["steps"], held["evaluations"]) == ("4", "4")
    worker.work(follow_ups)
    assert not any(line.held for line in budget_panel(Run.objects.get(pk=run.pk)).lines)


@pytest.mark.django_db
def test_reused_verdicts_say_the_device_time_they_saved():
    same = ScriptedProposer({n: answer("class ModelNew: pass") for n in range(1, 9)})
    run = Worker(same, SlowBench()).run(make_run(steps=3, params={"policy": "independent"}))
    panel = budget_panel(run)
    assert (panel.reused, panel.saved_s) == (2, 3.0)


@pytest.mark.django_db
def test_the_cockpit_and_the_frames_show_the_panel_and_json_the_burn_down():
    run = Worker(billed(), SlowBench()).run(limited(steps=4, evaluations=3, target_speedup=99.0))
    client = client_of("viewer")
    html = client.get(f"/s/{run.pk}/").content.decode()
    assert "3 of 3" in html and "Ends when the audited best reaches 99.00×." in html
    assert "3 of 3" in client.get(f"/s/{run.pk}/snapshot").json()["html"]["budget"]
    document = client.get(f"/s/{run.pk}/budget").json()
    assert document["burn_down"]["evaluations"] == [1, 2, 3]
    assert [Decimal(usd) for usd in document["burn_down"]["usd"]] == [Decimal(n) / 100 for n in (1, 2, 3)]
    assert document["reserved"]["steps"] == 0 and document["limits"]["evaluations"] == 3


@pytest.mark.django_db
def test_the_node_page_names_the_node_that_is_much_like_it():
    texts = {1: answer(LONG), 2: answer(LONG.replace("value_9 ", "value_nine ", 1))}
    run = Worker(ScriptedProposer(texts)).run(make_run(steps=2, params={"policy": "independent"}))
    html = client_of("viewer").get(f"/s/{run.pk}/n/2/").content.decode()
    assert "Similar to" in html and "near-equal, 99 %" in html
    assert Node.objects.filter(run=run, number=1).exclude(sketch=b"").exists()


@pytest.mark.django_db
def test_money_adds_up_to_the_millionth_on_every_database():
    run = limited(steps=9, usd=Decimal(100))
    Worker().do(FollowUp("advance", run.pk))
    prices = [Decimal(k * 7919 % 100_003) / 1_000_000 for k in range(400)]
    nodes = list(run.nodes.exclude(number=0))
    calls = [
        Proposal(node=nodes[k % 4], attempt=k, proposer="openai", model="m", tokens_in=1, price_usd=price)
        for k, price in enumerate(prices)
    ]
    Proposal.objects.bulk_create(calls)
    Node.objects.filter(pk=nodes[0].pk).update(state=Node.State.CANCELLED)
    assert ledger_of(run.pk).spent.usd == sum(prices)
    run.nodes.exclude(number=0).update(state=Node.State.CANCELLED)
    assert (ledger_of(run.pk).spent.usd, ledger_of(run.pk).spent.tokens) == (sum(prices), 400)
