"""Limits that make no sense are refused when a search is started, with what to change; the others are kept on it."""

from __future__ import annotations

import json

import pytest

from adaexplore_site.core.audit import ActionRefused
from search.ledger.books import limits_of
from search.ledger.prices import price_of
from search.records.models import Run
from tests.pages import client_of
from tests.search.makers import make_device, make_problem, make_run

pytestmark = pytest.mark.django_db
PRICED = {"model": "m-1", "usd_per_m_in": "1", "usd_per_m_out": "10", "valid_from": "2020-01-01"}


@pytest.fixture
def model(settings, tmp_path):
    """A configured endpoint, and a price for its model."""
    (tmp_path / "prices.json").write_text(json.dumps({"prices": [PRICED]}))
    settings.LLM_BASE_URL, settings.LLM_API_KEY, settings.LLM_MODEL = "https://llm.example/v1", "k", "m-1"
    settings.LLM_PRICES = str(tmp_path / "prices.json")


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"usd": 5}, "costs no money"),
        ({"tokens": 5}, "uses no tokens"),
        ({"evaluations": 0}, "must be from 1"),
        ({"gpu_hours": 1}, "Unknown limit gpu_hours"),
        ({"device_s": 5}, "below what is held for a single step"),
        ({"roofline_share": 0.5}, "found no time bound"),
    ],
)
def test_a_limit_that_cannot_be_held_is_refused_and_no_search_is_made(limits, words):
    with pytest.raises(ActionRefused, match=words):
        make_run(limits=limits)
    assert not Run.objects.exists()


def test_a_limit_of_money_for_a_model_without_a_price_says_where_to_give_one(model, settings):
    settings.LLM_MODEL = "m-2"
    with pytest.raises(ActionRefused, match=r"No price is known for .* LLM_PRICES"):
        make_run(proposer="openai", limits={"usd": 5})


def test_a_limit_of_money_holds_the_price_of_the_longest_step(model):
    run = make_run(proposer="openai", limits={"usd": 5}, options={"max_tokens": 1000})
    assert str(limits_of(run).step_usd) == "0.044000"  # 24000 tokens in, two replies of 1000
    assert price_of(model="m-1", on=run.created_at.date()).usd(24_000, 2_000) == limits_of(run).step_usd


def test_a_broken_price_file_is_named_instead_of_starting(model, settings, tmp_path):
    (tmp_path / "broken.json").write_text("{}")
    settings.LLM_PRICES = str(tmp_path / "broken.json")
    with pytest.raises(ActionRefused, match=r"broken\.json is not a price file"):
        make_run(proposer="openai", limits={"usd": 5})


def test_a_known_bound_lets_a_share_of_the_roofline_be_a_goal():
    problem = make_problem()
    problem.admission["interpreter"]["roofline"] = {"bound_us": 3.0}
    problem.save()
    assert limits_of(make_run(problem=problem, limits={"roofline_share": 0.5})).roofline_share == 0.5


def test_a_deadline_is_kept_for_the_reaper():
    run = make_run(limits={"wall_s": 60})
    assert (run.deadline_at - run.created_at).total_seconds() == 60


@pytest.fixture
def page(monkeypatch):
    make_device()
    monkeypatch.setattr("search.records.queue.send", lambda follow_ups: None)
    given = {"problem": make_problem().slug, "device": "interpreter", "proposer": "builtin", "steps": 5, "key": "k"}
    return lambda **fields: client_of("operator").post("/new", given | fields)


def test_the_form_takes_limits_in_a_person_s_units(page):
    answer = page(concurrency=4, wall_minutes="2", evaluations=9, target_speedup="2.5", step_device_s="3")
    run = Run.objects.get()
    assert answer.status_code == 302 and run.concurrency == 4
    wanted = {"wall_s": 120.0, "evaluations": 9, "target_speedup": 2.5, "step_device_s": 3.0}
    assert {name: run.limits[name] for name in wanted} == wanted


def test_a_refused_limit_stands_on_the_form_which_keeps_what_was_typed(page):
    answer = page(usd="3")
    html = answer.content.decode()
    assert answer.status_code == 422 and "costs no money" in html
    assert 'value="3"' in html and "<details" in html and "open" in html.split("<details")[-1][:40]


def test_a_form_without_limits_starts_as_before(page):
    assert page().status_code == 302
    assert (Run.objects.get().concurrency, Run.objects.get().deadline_at) == (1, None)
