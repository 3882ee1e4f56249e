"""A form that was refused comes back with everything that was typed, and what is wrong beside the field."""

from __future__ import annotations

import re

import pytest

from search.records.log import params_in_force
from search.records.models import Run
from tests.pages import client_of
from tests.search.makers import make_device, make_problem, make_run
from tests.search.steered import run_budget_add, steer_params

pytestmark = pytest.mark.django_db


@pytest.fixture
def follow_ups(monkeypatch) -> list:
    sent: list = []
    monkeypatch.setattr("search.records.queue.send", sent.extend)
    return sent


def params(run: Run, **typed: str) -> dict[str, str]:
    """The form as the page shows it, with some fields typed over."""
    now = {name: str(value) for name, value in params_in_force(run).to_json().items()}
    return {"act": "params", **{f"was-{name}": text for name, text in now.items()}, **now, **typed}


def fields(html: str) -> dict[str, str]:
    """Value of every field by name, the chosen one of a list."""
    found = dict(re.findall(r'<input[^>]*name="([\w-]+)" value="([^"]*)"', html))
    for name, body in re.findall(r'<select name="([\w-]+)"[^>]*>(.*?)</select>', html, re.DOTALL):
        found[name] = re.findall(r"<option[^>]* ?selected>([^<]*)", body)[0]
    return found


def test_refused_parameters_stay_in_the_form_each_with_its_error_beside_it(follow_ups):
    run = make_run()
    typed = params(run, w="much", rho="-3", p_large="0.4", policy="greedy")
    answer = client_of("operator").post(f"/s/{run.pk}/steer", typed)
    html = answer.content.decode()
    assert answer.status_code == 422 and not run.events.filter(kind="steer.params").exists()
    shown = fields(html)
    assert {name: shown[name] for name in ("w", "rho", "p_large", "policy", "window")} == {
        "w": "much", "rho": "-3", "p_large": "0.4", "policy": "greedy", "window": "5",
    }  # fmt: skip
    for name, words in (("w", "w must be a number"), ("rho", "rho must be from 0 to 100")):
        assert re.search(f'name="{name}"[^>]*aria-describedby="id_{name}_error"', html)
        assert re.search(f'id="id_{name}_error">{words}', html)
    assert 'id="id_p_large_error"' not in html


def test_the_form_that_came_back_can_be_mended_and_sent(follow_ups):
    run, operator = make_run(), client_of("operator")
    html = operator.post(f"/s/{run.pk}/steer", params(run, w="much", p_large="0.4")).content.decode()
    steer_params(run=run, changes={"rho": 0.5}, user=None)  # somebody else meanwhile
    again = {"act": "params", **fields(html), "w": "0.7"}
    assert operator.post(f"/s/{run.pk}/steer", again | {"key": ""}).status_code == 302
    now = params_in_force(run)
    assert (now.w, now.p_large, now.rho) == (0.7, 0.4, 0.5)


@pytest.mark.parametrize(
    ("act", "name", "text", "words"),
    [
        ("limits", "steps", "-4", "more than 0"),
        ("limits", "steps", "many", "Enter a whole number for steps"),
        ("concurrency", "concurrency", "9999", "from 1 to"),
        ("concurrency", "concurrency", "a few", "Enter a whole number"),
    ],
)
def test_other_forms_of_a_search_keep_what_was_typed_too(follow_ups, act, name, text, words):
    run = make_run(limits={"evaluations": 50})
    answer = client_of("operator").post(f"/s/{run.pk}/steer", {"act": act, name: text, "evaluations": "7"})
    html = answer.content.decode()
    assert answer.status_code == 422 and fields(html)[name] == text
    assert re.search(f'<input type="text" name="{name}"', html), "a field for numbers would show nothing"
    assert re.search(f'id="id_{name}_error">[^<]*{words}', html)
    if act == "limits":
        assert fields(html)["evaluations"] == "7"
        assert run_budget_add(run=run, delta={"steps": 1}, user=None).steps == 6


START = {"steps": "9", "seed": "4", "title": "mine", "concurrency": "3", "tokens": "", "rule_tokens": "777"}
START |= {"device": "interpreter", "proposer": "builtin", "preset": "adapt", "stale_steps": "5"}


@pytest.mark.parametrize(
    ("changes", "status", "name", "words"),
    [
        ({"steps": "1e9"}, 422, "steps", "whole number"),
        ({"concurrency": "lots"}, 422, "concurrency", "whole number"),
        ({"device_minutes": "nothing"}, 422, "device_minutes", "Enter a number"),
        ({"tokens": "5000"}, 422, "tokens", "uses no tokens"),
        ({"device_minutes": "0.06", "step_device_s": "60"}, 422, "device_minutes", "below what is held"),
        ({"roofline_percent": "80"}, 422, "roofline_percent", "no time bound"),
    ],
)
def test_a_refused_start_keeps_every_field_and_opens_where_the_error_is(follow_ups, changes, status, name, words):
    make_device()
    typed = START | changes | {"problem": make_problem().slug, "key": "k"}
    answer = client_of("operator").post("/new", typed)
    html = answer.content.decode()
    assert answer.status_code == status and not Run.objects.exists()
    shown = dict(re.findall(r'<input type="(?:text|number)" name="([\w-]+)" value="([^"]*)"', html))
    wanted = {field for field in typed if field not in ("problem", "key", "device", "proposer", "preset")}
    assert {field: shown.get(field, "") for field in wanted} == {field: typed[field] for field in wanted}
    assert '<option value="adapt" selected' in html
    beside = html[html.index(f'name="{name}"') :].split('<div class="field">')[0]
    assert words in beside and 'class="errorlist' in beside
    assert "umber" not in words or f'<input type="text" name="{name}"' in html
    if name not in ("steps",):
        assert re.search(r'<details class="more" open><summary>Concurrency', html)


def test_a_device_that_is_gone_is_named_in_its_list(follow_ups):
    make_device()
    answer = client_of("operator").post("/new", START | {"problem": make_problem().slug, "device": "cuda:7"})
    assert 'value="cuda:7" selected>cuda:7, not here' in answer.content.decode()
