"""Pause, resume and stop over HTTP: done once, refused with a reason."""

from __future__ import annotations

import pytest

from adaexplore_site.core.models import AuditEntry
from search.records.models import Run
from tests.pages import client_of
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


@pytest.fixture
def follow_ups(monkeypatch):
    sent = []
    monkeypatch.setattr("search.records.queue.send", sent.extend)
    return sent


def test_pause_resume_and_stop_change_the_state_and_leave_an_audit_row(follow_ups):
    run, operator = make_run(), client_of("operator")
    for verb, state in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
        answer = operator.post(f"/s/{run.pk}/{verb}", {"key": verb})
        assert (answer.status_code, answer["Location"]) == (302, f"/s/{run.pk}/")
        assert Run.objects.get().state == state
    assert set(AuditEntry.objects.values_list("verb", flat=True)) >= {"run.pause", "run.resume", "run.stop"}
    assert [(follow_up.task, follow_up.target) for follow_up in follow_ups] == [
        ("advance", run.pk)
    ]  # only a resume has work to send


def test_the_same_form_twice_is_one_act(follow_ups):
    run, operator = make_run(), client_of("operator")
    for _ in range(2):
        assert operator.post(f"/s/{run.pk}/pause", {"key": "same"}, headers=HTMX).status_code == 204
    assert AuditEntry.objects.filter(verb="run.pause").count() == 1


def test_an_impossible_act_is_409_with_the_reason(follow_ups):
    run, operator = make_run(), client_of("operator")
    Run.objects.update(state="finished")
    for headers in ({}, HTMX):
        answer = operator.post(f"/s/{run.pk}/pause", headers=headers)
        assert answer.status_code == 409 and "already ended" in answer.content.decode()
        assert ("<html" in answer.content.decode()) is not bool(headers)
    assert follow_ups == []


def test_stop_now_and_resume_are_forms(follow_ups):
    run, operator = make_run(steps=5), client_of("operator")
    address = f"/s/{run.pk}/stop"
    assert operator.post(address, {"key": "a", "now": "1"}).status_code == 302
    run.refresh_from_db()
    assert run.state == Run.State.STOPPED and AuditEntry.objects.filter(verb="run.kill").count() == 1
    page = operator.get(f"/s/{run.pk}/activity/").content.decode()
    assert f"/activity/{AuditEntry.objects.get(verb='run.kill').pk}/undo" in page
    assert operator.post(f"/s/{run.pk}/resume", {"key": "b"}).status_code == 302
    run.refresh_from_db()
    assert run.state == Run.State.RUNNING


def test_steps_in_flight_are_set_by_a_form_and_undone_in_activity(follow_ups):
    run, operator = make_run(steps=5), client_of("operator")
    steer = f"/s/{run.pk}/steer"
    operator.post(steer, {"act": "concurrency", "concurrency": "3", "key": "a"})
    run.refresh_from_db()
    assert run.concurrency == 3
    page = operator.get(f"/s/{run.pk}/activity/").content.decode()
    done = AuditEntry.objects.get(verb="run.concurrency")
    assert f"/activity/{done.pk}/undo" in page and "Steps in flight 1 → 3" in page
    assert operator.post(f"/activity/{done.pk}/undo", {"key": "u"}).status_code == 302
    run.refresh_from_db()
    assert run.concurrency == 1
    assert operator.post(steer, {"act": "concurrency", "concurrency": "many", "key": "b"}).status_code == 422
