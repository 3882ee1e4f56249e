"""Spending: every call and verdict leaves its sum, unknown is never zero, and the page asks the same for many calls."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from importlib import import_module

import pytest
from django.db import connection
from django.db.models import Q
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from memory.adapt.models import AdaptRun, AdaptTask
from search.engine.spending import adapt_call_add
from search.ledger.models import Spending
from search.ledger.spending import Amount, Period, calls_by_node, of_adapt, of_campaign, spending, spent, spent_by
from search.proposers.protocol import Call, Reply
from search.records.models import Node, Proposal
from tests.pages import client_of
from tests.search.campaign_rows import make_campaign
from tests.search.fakes import ScriptedProposer, kernel
from tests.search.makers import Worker, make_device, make_run

pytestmark = pytest.mark.django_db


def billed(price, tokens=(100, 20), model="big", again=False):
    """An answer of one call, or of two."""

    def answer(task):
        call = Call(model=model, tokens_in=tokens[0], tokens_out=tokens[1], price_usd=price and Decimal(price))
        return Reply(source=kernel(task).source, calls=(call, call) if again else (call,))

    return answer


def searched(answers, **changes):
    run = make_run(**({"steps": len(answers)} | changes))
    return Worker(ScriptedProposer(answers=answers)).run(run)


def by(group):
    return {line.label: line.amount for line in spending(group, Period()).lines}


def test_a_search_s_calls_and_device_time_add_up_by_search_model_and_kind():
    run = searched({1: billed("0.10"), 2: billed("0.20", model="small"), 3: billed("0.05", again=True)})
    assert sum(Spending.objects.values_list("usd", flat=True)) == Decimal("0.40")
    (line,) = spending("search", Period()).lines
    assert (line.run, line.amount.calls, line.amount.usd) == (run, 4, Decimal("0.40"))
    models = by("model")
    assert {name: one.usd for name, one in models.items()} == {"big": Decimal("0.20"), "small": Decimal("0.20")}
    kinds = by("kind")
    assert kinds["retried"].usd == Decimal("0.05") and kinds["retried"].calls == 1
    assert sum(one.interpreter_ms for one in kinds.values()) == pytest.approx(
        sum(run.nodes.exclude(evaluation=None).values_list("evaluation__wall_ms", flat=True))
    )


def test_the_sums_are_those_of_the_stored_calls_and_verdicts():
    searched({1: billed("0.10"), 2: billed(None, (None, None)), 3: kernel, 4: billed("0.05", again=True)})
    kept = {(row.run_id, row.day, row.model, row.kind): row for row in Spending.objects.all()}
    found = import_module("search.migrations.0011_spending").sums_of(Proposal, Node)
    assert set(found) == set(kept)
    for key, amounts in found.items():
        for name, value in amounts.items():
            assert getattr(kept[key], name) == pytest.approx(value), (key, name)


def test_an_equal_kernel_counts_as_reused_and_costs_no_device_time():
    same = Reply(source="class ModelNew:\n    x = 1\n")
    searched({1: lambda task: same}, seed=5)
    Node.objects.exclude(evaluation=None).get().evaluation.__class__.objects.update(wall_ms=700.0)
    searched({1: lambda task: same}, seed=6)
    amount = spending("search", Period()).total
    assert (amount.reused, amount.saved_ms) == (1, 700.0)
    Spending.objects.filter(reused=1).update(saved_ms=3_600_000)
    assert "1 h 00 min saved" in client_of("viewer").get(reverse("spend")).content.decode()


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (Amount(), ""),
        (Amount(calls=3, usd=Decimal("3.1")), "$3.10"),
        (Amount(calls=9, usd=Decimal("3.1"), unpriced=4), "at least $3.10 (4 calls unpriced)"),
        (Amount(calls=1, unpriced=1), "unknown (1 call unpriced)"),
        (Amount(calls=1, usd=Decimal("0.000001")), "< $0.0001"),
    ],
)
def test_unknown_money_is_never_zero(amount, words):
    assert amount.money == words


def test_calls_without_a_price_or_count_are_said_and_their_model_is_named():
    searched({1: billed(None, (None, None), model="nameless"), 2: billed("0.5")})
    html = client_of("viewer").get(reverse("spend")).content.decode()
    assert "at least $0.5000 (1 call unpriced)" in html and "at least 120 (1 call uncounted)" in html
    assert "<code>nameless</code>" in html and "$0.00" not in html


def test_without_a_billed_call_there_is_no_sum_of_money():
    viewer = client_of("viewer")
    html = viewer.get(reverse("spend")).content.decode()
    assert "No priced calls" in html and "$" not in html.split("<main")[1]
    searched({1: kernel})
    Spending.objects.update(calls=0, usd=0, tokens_in=0, tokens_out=0, unpriced=0, model="")
    html = viewer.get(reverse("spend")).content.decode()
    assert "no priced calls" in html and "$" not in html.split("<main")[1]


def test_the_price_of_a_tenth_needs_a_win_and_no_degenerate_problem():
    run = searched({1: billed("0.40"), 2: billed("0.40")})
    (line,) = spending("search", Period()).lines
    assert line.best is not None and line.best.speedup > 1
    expected = Decimal("0.80") / Decimal((line.best.speedup - 1) / 0.1)
    assert Decimal(line.per_tenth.strip("$")) == pytest.approx(expected, abs=Decimal("0.01"))
    run.problem.state = "degenerate"
    run.problem.save()
    (line,) = spending("search", Period()).lines
    assert line.per_tenth == ""


def test_a_period_holds_its_days_and_nonsense_is_refused_in_words():
    searched({1: billed("0.40")})
    Spending.objects.update(day="2026-05-10")
    viewer = client_of("viewer")
    inside = viewer.get(reverse("spend") + "?from=2026-05-10&to=2026-05-10").content.decode()
    outside = viewer.get(reverse("spend") + "?from=2026-05-11").content.decode()
    assert "$0.4000" in inside and "$0.4000" not in outside and "None in this period" in outside
    for query, words in (("from=soon", "is not a day"), ("from=2026-05-10&to=2026-05-01", "after the last")):
        answer = viewer.get(reverse("spend") + "?" + query)
        assert answer.status_code == 422 and words in answer.content.decode()


def test_files_hold_every_row_with_unknown_as_empty_and_no_formula():
    searched({1: billed(None, model="=HYPERLINK(1)")})
    viewer = client_of("viewer")
    rows = list(csv.DictReader(io.StringIO(viewer.get(reverse("spend") + "?by=model&as=csv").content.decode())))
    assert rows[0]["group"] == "'=HYPERLINK(1)" and rows[0]["usd_known"] == "" and rows[0]["calls_unpriced"] == "1"
    document = viewer.get(reverse("spend") + "?as=json").json()
    assert document["rows"][0]["usd_known"] is None and document["rows"][0]["best_basis"] == "modelled"


def test_what_adapt_runs_paid_outside_of_searches_has_its_day_and_no_second_truth():
    adapt = AdaptRun.objects.create(title="a", device=make_device(), proposer="openai")
    call = {"model": "big", "tokens_in": 10, "tokens_out": 5, "usd": "0.02"}
    unknown = call | {"usd": None, "tokens_in": None}
    AdaptTask.objects.create(adapt=adapt, place=1, recipe={"call": call, "lessons": [unknown, unknown]})
    adapt_call_add(adapt.pk, call, kind=Spending.Kind.TASK)
    for _ in range(2):
        adapt_call_add(adapt.pk, unknown, kind=Spending.Kind.LESSON)
    kinds, day = by("kind"), adapt.created_at.date()
    assert kinds["composing practice tasks"].usd == Decimal("0.02") and kinds["writing rules"].unpriced == 2
    assert spending("search", Period(day, day)).lines[0].label == f"adapt run {adapt.pk}"
    kept = {(row.adapt_id, row.day, row.model, row.kind): row for row in Spending.objects.all()}
    found = import_module("search.migrations.0013_spend_budget").own_sums_of(AdaptTask)
    assert set(found) == set(kept)
    for key, amounts in found.items():
        assert {name: getattr(kept[key], name) for name in amounts} == amounts


def test_the_sums_ask_as_often_for_many_calls_as_for_one_and_never_look_at_calls(django_assert_num_queries):
    searched({1: billed("0.1")}, seed=1)
    with CaptureQueriesContext(connection) as few:
        spending("search", Period())
    for seed in range(2, 7):
        searched({1: billed("0.1"), 2: billed("0.1"), 3: billed("0.1", again=True)}, seed=seed)
    with django_assert_num_queries(len(few)):
        spending("search", Period())
    assert not any("search_proposal" in query["sql"] for query in few.captured_queries)


def test_one_sum_answers_for_a_search_a_problem_a_model_a_day_and_a_batch():
    run, other = searched({1: billed("0.10"), 2: billed("0.20", model="small")}), searched({1: billed("0.40")}, seed=9)
    adapt = AdaptRun.objects.create(title="a", device=make_device(), proposer="openai")
    AdaptTask.objects.create(adapt=adapt, place=1, run=run, problem=run.problem, state="started")
    adapt_call_add(adapt.pk, {"model": "big", "tokens_in": 10, "tokens_out": 5, "usd": "0.02"}, kind=Spending.Kind.TASK)
    campaign = make_campaign("alone")
    campaign.entries.update(run=other, state="started")
    usd = {
        "0.30": Q(run=run), "0.70": Q(run__problem=run.problem), "0.20": Q(model="small"), "0.52": Q(model="big"),
        "0.32": of_adapt(adapt.pk), "0.40": of_campaign(campaign.pk),
        "0.72": Period(first=adapt.created_at.date()).days,
    }  # fmt: skip
    assert {text: spent(where).usd for text, where in usd.items()} == {text: Decimal(text) for text in usd}
    assert spent(Q(run=run)).device_ms == sum(one.device_ms for one in calls_and_verdicts(run))
    assert sum(calls_by_node(run.pk).values(), Amount()).money == spent(Q(run=run)).money == "$0.3000"


def calls_and_verdicts(run):
    return spent_by("model", "kind", where=Q(run=run)).values()
