"""The preflight panel: what is done, what runs, what to do; it polls only while something may still change."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from kombu.exceptions import OperationalError

from judge.devices.models import Device
from judge.problems import views
from judge.problems.models import Problem
from tests.pages import client_of
from tests.search.makers import make_device, make_problem

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


@pytest.fixture
def sent(monkeypatch) -> list[dict[str, Any]]:
    """What would have been queued."""
    make_device()
    tasks: list[dict[str, Any]] = []
    monkeypatch.setattr(views.admit_problem, "apply_async", lambda **given: tasks.append(given))
    return tasks


def problem(**entry: Any) -> Problem:
    found = make_problem()
    found.admission = {"interpreter": entry} if entry else {}
    found.save()
    return found


def stage(name: str, state: str = "ok", fix: str = "") -> dict[str, Any]:
    return {"name": name, "state": state, "wall_ms": 3.0, "detail": "", "fix": fix}


def panel(client: Client, of: Problem) -> str:
    return client.get(f"/problems/{of.slug}/preflight", headers=HTMX).content.decode()


def since(seconds: float) -> str:
    return (timezone.now() - timedelta(seconds=seconds)).isoformat()


def test_a_start_is_queued_once_on_the_device(sent):
    found, operator = problem(), client_of("operator")
    for _ in range(2):
        answer = operator.post(f"/problems/{found.slug}/preflight", headers=HTMX)
        assert "waiting for the device" in answer.content.decode()
    assert [task["queue"] for task in sent] == ["device.interpreter"]


def test_a_running_preflight_shows_done_running_and_pending_and_asks_again(sent):
    html = panel(
        client_of("viewer"), problem(state="running", started=since(1), stages=[stage("size"), stage("construct")])
    )
    assert html.count("check-line is-ok") == 4  # parsed, imported, size, construct
    assert html.count("check-line is-running") == 1
    assert "check-line is-pending" in html and 'hx-trigger="every 500ms"' in html


def test_a_refusal_shows_the_fix_and_stops_asking(sent):
    stages = [stage("size"), stage("output", "failed", "Return one tensor.")]
    report = {"state": "refused", "reason": "problem.output", "message": "It returns a dict.", "stages": stages}
    html = panel(client_of("operator"), problem(**report))
    assert "Return one tensor." in html and "It returns a dict." in html
    assert "every 500ms" not in html and "Check again" in html
    assert "Preflight: refused" in html  # told to screen readers


def test_silence_names_the_missing_worker_and_how_to_start_one(sent):
    html = panel(client_of("operator"), problem(state="queued", started=since(60), stages=[]))
    assert "No worker is serving" in html and "-Q device.interpreter" in html
    assert "Check again" in html


@pytest.mark.parametrize(("silent_s", "named"), [(20, False), (90, True)])
def test_a_worker_that_beats_while_it_judges_something_else_is_not_called_missing(sent, silent_s, named):
    Device.objects.filter(name="interpreter").update(seen_at=timezone.now() - timedelta(seconds=silent_s))
    html = panel(client_of("operator"), problem(state="queued", started=since(60), stages=[]))
    assert ("No worker is serving" in html) is named
    assert ("Check again" in html) is named  # what waits behind other work is not queued twice


def test_a_decided_preflight_runs_again_only_when_asked_to(sent):
    found, operator = problem(state="admitted", stages=[]), client_of("operator")
    operator.post(f"/problems/{found.slug}/preflight", headers=HTMX)
    assert sent == []
    operator.post(f"/problems/{found.slug}/preflight", {"again": "1"}, headers=HTMX)
    assert len(sent) == 1


def test_a_queue_that_is_away_breaks_no_page(sent, monkeypatch):
    def away(**_: Any) -> None:
        raise OperationalError("no socket")

    monkeypatch.setattr(views.admit_problem, "apply_async", away)
    answer = client_of("operator").post(f"/problems/{problem().slug}/preflight", headers=HTMX)
    assert answer.status_code == 200


def test_the_rest_of_the_page_hears_of_a_preflight_once_it_is_decided_or_asked_for(sent):
    found, operator = problem(state="running", started=since(1), stages=[]), client_of("operator")
    address = f"/problems/{found.slug}/preflight"
    assert "HX-Trigger" not in operator.get(address, headers=HTMX)
    assert "preflight-changed" in operator.get(f"{address}?auto=1", headers=HTMX)["HX-Trigger"]
    assert "preflight-changed" in operator.post(address, headers=HTMX)["HX-Trigger"]
    problem(state="refused", stages=[])
    assert "preflight-changed" in operator.get(address, headers=HTMX)["HX-Trigger"]


def test_an_unknown_device_is_not_found(sent):
    assert client_of("viewer").get(f"/problems/{problem().slug}/preflight?device=cuda:9").status_code == 404
