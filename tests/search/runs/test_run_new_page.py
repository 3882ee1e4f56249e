"""Starting a search: two clicks for a sample, waiting for the preflight, clear refusals, one run per form."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused
from judge.devices.models import Device
from judge.problems import views as judge_views
from judge.problems.models import Problem
from judge.values import Gradients, Policy
from search.records.models import Run
from tests.pages import client_of
from tests.search.makers import make_device, make_problem, make_run

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


@pytest.fixture
def follow_ups(monkeypatch) -> list[Any]:
    """What would have been sent to the queues."""
    make_device()
    sent: list[Any] = []
    monkeypatch.setattr("search.records.queue.send", sent.extend)
    monkeypatch.setattr(judge_views.admit_problem, "apply_async", lambda **given: sent.append(given["queue"]))
    return sent


@pytest.fixture
def operator() -> Client:
    return client_of("operator")


def form(problem: Problem, **changes: Any) -> dict[str, Any]:
    given = {"problem": problem.slug, "device": "interpreter", "proposer": "builtin", "steps": 5, "key": "k1"}
    return given | {"seed": "", "title": ""} | changes


def admission(problem: Problem, **entry: Any) -> Problem:
    problem.admission = {"interpreter": entry} if entry else {}
    problem.save()
    return problem


def test_a_sample_is_one_link_and_one_button_away(operator, follow_ups):
    problem = make_problem()
    Problem.objects.filter(pk=problem.pk).update(origin="sample", family="reductions")
    html = operator.get("/new").content.decode()
    assert "Reductions" in html and f"/new?problem={problem.slug}" in html
    html = operator.get(f"/new?problem={problem.slug}").content.decode()
    assert 'id="start-button"' in html and 'value="30"' in html


def test_the_form_says_where_the_builtin_proposer_has_nothing_to_offer(operator, follow_ups):
    problem = make_problem()
    page = f"/new?problem={problem.slug}"
    assert "Writes no backward" not in operator.get(page).content.decode()
    Problem.objects.filter(pk=problem.pk).update(policy=Policy(gradients=Gradients.ALL).to_json())
    assert operator.get(page).content.decode().count("Writes no backward") == 1


def test_a_viewer_is_told_that_it_reads_only_where_an_operator_uploads(operator):
    html = client_of("viewer").get("/new").content.decode()
    assert "data-dropzone" not in html and "Uploading a module needs the role" in html
    html = operator.get("/new").content.decode()
    assert "data-dropzone" in html and "needs the role" not in html
    assert "a file is uploaded as soon as it is chosen" in html


def test_a_device_that_takes_no_searches_is_named_with_why_and_a_way_to_the_fleet(operator, follow_ups):
    problem = make_problem()
    for state, reason, words in (("draining", "", "draining: it takes no"), ("quarantined", "<hot>", "&lt;hot&gt;")):
        Device.objects.update(state=state, state_reason=reason)
        for answer in (operator.get(f"/new?problem={problem.slug}"), operator.post("/new", form(problem, device=""))):
            html = answer.content.decode()
            assert words in html and "/fleet/?worker=interpreter" in html and "none is active" in html
            assert "None, not here" not in html and "No GPU found here" not in html


def test_an_unchecked_problem_starts_its_preflight_when_the_page_opens(operator, follow_ups):
    problem = admission(make_problem())
    assert 'hx-trigger="load, submit"' in operator.get(f"/new?problem={problem.slug}").content.decode()
    assert follow_ups == []  # looking changes nothing


def test_start_creates_one_run_however_often_the_form_is_sent(operator, follow_ups):
    problem = make_problem()
    for headers in (HTMX, HTMX, {}):
        answer = operator.post("/new", form(problem, title="mine", seed="7"), headers=headers)
        run = Run.objects.get()
        target = answer["HX-Redirect"] if headers else answer["Location"]
        assert target == f"/s/{run.pk}/"
    assert (run.title, run.seed, run.steps, run.proposer) == ("mine", 7, 5, "builtin")
    assert follow_ups[0].task == "advance" and follow_ups[0].target == run.pk


@pytest.mark.parametrize(("preset", "reward"), [("", "paper"), ("paper-l2", "paper"), ("default", "log")])
def test_the_settings_are_those_of_the_chosen_preset(operator, follow_ups, preset, reward):
    operator.post("/new", form(make_problem(), preset=preset))
    assert Run.objects.get().params["reward"] == reward


def test_a_preset_that_is_not_there_starts_nothing(operator, follow_ups):
    answer = operator.post("/new", form(make_problem(), preset="mine"))
    assert answer.status_code == 422 and "no such preset" in answer.content.decode()
    assert not Run.objects.exists()


def test_start_before_the_preflight_waits_and_then_starts(operator, follow_ups):
    problem = admission(make_problem())
    html = operator.post("/new", form(problem), headers=HTMX).content.decode()
    assert "Starts as soon as" in html and 'hx-trigger="load delay:700ms"' in html
    assert follow_ups == ["device.interpreter"] and not Run.objects.exists()
    admission(problem, state="running", started=timezone.now().isoformat(), stages=[])
    assert "Starts as soon as" in operator.post("/new", form(problem), headers=HTMX).content.decode()
    admission(problem, state="admitted", stages=[])
    assert operator.post("/new", form(problem), headers=HTMX)["HX-Redirect"]


def test_a_refused_problem_does_not_start(operator, follow_ups):
    problem = admission(make_problem(), state="refused", reason="problem.x", message="It returns a dict.", stages=[])
    for headers in ({}, HTMX):
        answer = operator.post("/new", form(problem), headers=headers)
        assert answer.status_code == 422 and "It returns a dict." in answer.content.decode()
    assert not Run.objects.exists()


REFUSED = {"state": "refused", "reason": "problem.x", "message": "It returns a dict", "stages": []}


def start_button(html: str) -> str:
    return re.search(r'<button[^>]*id="start-button"[^>]*>', html)[0]


def test_a_refused_problem_offers_no_start_and_says_why_beside_it(operator, follow_ups):
    problem = admission(make_problem(), **REFUSED)
    html = operator.get(f"/new?problem={problem.slug}").content.decode()
    assert "disabled" in start_button(html) and 'aria-describedby="start-why-not"' in start_button(html)
    reason = html.split('id="start-why-not">')[1].split("</p>")[0]
    assert reason == (
        "The preflight on interpreter refused this problem. It returns a dict. "
        "Upload a corrected module, or choose another device."
    )
    refused = operator.post("/new", form(problem), headers=HTMX).content.decode()
    assert reason in refused.split('role="alert"')[1] and "disabled" in start_button(refused)


@pytest.mark.parametrize("entry", [{}, {"state": "admitted"}, {"state": "degenerate"}, {"state": "queued"}])
def test_a_problem_that_may_pass_can_be_started(operator, follow_ups, entry):
    problem = admission(make_problem(), **({"started": timezone.now().isoformat()} | entry if entry else {}))
    html = operator.get(f"/new?problem={problem.slug}").content.decode()
    assert "disabled" not in start_button(html) and "start-why-not" not in html


def test_a_preflight_that_could_not_be_done_asks_to_check_again(operator, follow_ups):
    problem = admission(
        make_problem(), state="failed", message="The judge failed, not the problem: no memory", stages=[]
    )
    for answer in (operator.get(f"/new?problem={problem.slug}"), operator.post("/new", form(problem))):
        html = answer.content.decode()
        assert "no memory. Check again before you start." in html and "disabled" in start_button(html)


def test_the_device_in_the_address_decides_about_the_button(operator, follow_ups):
    problem = admission(make_problem(), **REFUSED)
    Device.objects.create(name="cuda:0", kind=Device.Kind.CUDA, title="A GPU", arch="sm_90")
    for device, refused in (("interpreter", True), ("cuda:0", False)):
        html = operator.get(f"/new?problem={problem.slug}&device={device}").content.decode()
        assert ("disabled" in start_button(html)) is refused


def test_the_service_refuses_with_the_reason_of_the_preflight():
    problem = admission(make_problem(), **REFUSED)
    with pytest.raises(ActionRefused, match=r"refused this problem\. It returns a dict\."):
        make_run(problem=problem)
    assert not Run.objects.exists()


def test_a_failed_import_is_one_line_with_a_cross_and_told_once(operator, follow_ups):
    stage = {"name": "import", "state": "failed", "wall_ms": 0.0, "detail": "It raised KeyError.", "fix": "correct it"}
    told = {"reason": "problem.raises", "message": "line 3: It raised KeyError.", "stages": [stage]}
    problem = admission(make_problem(), state="refused", **told)
    html = operator.get(f"/problems/{problem.slug}/preflight").content.decode()
    assert html.count("Imports in the sandbox") == 1 and "is-failed" in html
    assert html.count("It raised KeyError.") == 1
    assert "Correct it" in html and "0 µs" not in html


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"steps": "0"}, "greater than or equal to 1"),
        ({"steps": "1e9"}, "whole number"),
        ({"steps": "99999"}, "less than or equal to 10000"),
        ({"seed": "-1"}, "greater than or equal to 0"),
        ({"device": "cuda:7"}, "no such device"),
        ({"proposer": "openai"}, "LLM_API_KEY"),
        ({"proposer": "magic"}, "Choose one of"),
        ({"title": "x" * 200}, "160 characters"),
    ],
)
def test_bad_fields_are_form_errors(operator, follow_ups, changes, says):
    answer = operator.post("/new", form(make_problem(), **changes), headers=HTMX)
    assert answer.status_code == 422
    assert says in answer.content.decode()
    assert not Run.objects.exists() and follow_ups == []


def test_an_unready_proposer_is_shown_with_its_reason(operator, follow_ups):
    html = operator.get(f"/new?problem={make_problem().slug}").content.decode()
    assert "LLM_API_KEY" in html and 'value="openai"  disabled' in html


def test_an_unknown_problem_is_not_found(operator, follow_ups):
    assert operator.get("/new?problem=nope").status_code == 404
    assert operator.post("/new", {"problem": "nope"}).status_code == 404
