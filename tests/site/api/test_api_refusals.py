"""What the API refuses: never as done, always with why, and what was done before only to those who may do it now."""

from __future__ import annotations

import json

import pytest
from django.db import IntegrityError
from django.test import Client
from django.utils import timezone

from adaexplore_site.accounts.services import token_issue
from adaexplore_site.api import library
from adaexplore_site.api.actions import Answer, answered_once
from adaexplore_site.api.models import ApiAnswer
from adaexplore_site.api.site import schema
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.saved_views.models import SavedView
from judge.selftest import actions as selftest_views
from judge.tasks import run_self_test
from search.fleet import actions as devices
from tests.pages import client_of
from tests.search.kernel_rows import gpu
from tests.search.makers import make_device, make_problem, make_run
from tests.site.api.test_api_acts import API, Program

pytestmark = pytest.mark.django_db
VIEW = {"place": "run-list", "name": "mine", "query": "q=x"}


def test_what_a_page_refuses_and_leads_back_from_is_not_done():
    robot = Program("operator")
    assert robot.act("view.save", VIEW, key="a").status_code == 200
    twice = robot.act("view.save", VIEW, key="b")
    assert twice.status_code == 409 and "done" not in twice.json() and "name" in twice.json()["detail"]
    assert SavedView.objects.count() == ApiAnswer.objects.count() == 1
    nameless = robot.act(f"view.rename/{SavedView.objects.get().pk}", {"name": " "})
    assert nameless.status_code == 422 and "60 characters" in nameless.json()["detail"]


def test_a_check_that_no_worker_could_be_told_of_is_not_done(monkeypatch):
    def away(*_, **__):
        raise selftest_views.OperationalError("refused")

    monkeypatch.setattr(devices, "check_send", lambda *_: False)
    monkeypatch.setattr(run_self_test, "apply_async", away)
    robot = Program("operator")
    answers = robot.act(f"device.check/{gpu().pk}"), robot.act(f"selftest.start/{make_device().name}")
    assert [(one.status_code, "broker is " in one.json()["detail"]) for one in answers] == [(409, True)] * 2


@pytest.mark.parametrize("coded", ["\u00e9", "a", "\ud800", "====", "a b="])
def test_a_file_that_is_no_base64_is_a_wrong_field(coded):
    body = json.dumps({"file": {"name": "rules.txt", "base64": coded}})
    answer = Program("reviewer").client.post(f"{API}/acts/rules.import", body, "application/json")
    assert answer.status_code == 422 and "file" in answer.json()["fields"]


def test_what_is_wrong_with_a_form_as_a_whole_is_said():
    robot = Program("operator")
    refused = robot.act("spend.budget", {"day_usd": "0", "alert_percent": 5})
    assert refused.status_code == 409 and "was refused" not in refused.json()["detail"], refused.json()


@pytest.mark.parametrize(
    ("path", "fields"),
    [("member.link/{}", {}), ("member.invite", {"name": "eve", "role": ["admin"]}), ("member.roles/{}", {"role": []})],
)
def test_a_token_lets_nobody_in_who_would_outlive_it(path, fields):
    robot = Program("admin")
    answer = robot.act(path.format(robot.user.pk), fields)
    assert answer.status_code == 409 and "outlive" in answer.json()["detail"] and "link" not in answer.json()
    assert not AuditEntry.objects.filter(verb__startswith="member.").exists()
    assert client_of("admin").post("/settings/members/invite", {"name": "ada", "role": ["operator"]}).status_code == 200


def test_a_stored_answer_is_given_to_nobody_who_may_not_do_the_act():
    run, robot = make_run(), Program("operator")
    path = f"{API}/acts/run.pause/{run.pk}"
    assert robot.act(f"run.pause/{run.pk}", key="k").status_code == 200
    user = type(robot.user).objects.get(pk=robot.user.pk)
    _, text = token_issue(name="ro", scopes=["read"], days=None, user=user, now=timezone.now())
    reader = Client(headers={"Authorization": f"Bearer {text}", "Idempotency-Key": "k"})
    answer = reader.post(path, "{}", "application/json")
    assert answer.status_code == 403 and "said" not in answer.json()


def test_of_two_that_act_at_once_under_one_key_the_later_looks_again():
    user, now, calls = Program("operator").user, timezone.now(), []

    def first() -> Answer:
        return Answer(200, {"done": True})

    def later() -> Answer:
        calls.append(1)
        answered_once(user=user, key="k", asked="a", now=now, do=first)
        raise IntegrityError("UNIQUE constraint failed: action.key")

    assert answered_once(user=user, key="k", asked="a", now=now, do=later).body == {"done": True, "repeated": True}
    tried = iter([IntegrityError, None])

    def unanswered() -> Answer:
        if (error := next(tried)) is not None:
            raise error
        return Answer(200, {"done": True})

    assert answered_once(user=user, key="m", asked="a", now=now, do=unanswered).status == 200


def test_whoever_is_refused_takes_no_row_of_another_away():
    user, now = Program("operator").user, timezone.now()
    ApiAnswer.objects.create(user=user, key="k", asked="a")  # another request is doing it
    assert answered_once(user=user, key="k", asked="a", now=now, do=lambda: Answer(409, {})).status == 409
    assert ApiAnswer.objects.filter(key="k").exists()
    assert answered_once(user=user, key="own", asked="a", now=now, do=lambda: Answer(409, {})).status == 409
    assert not ApiAnswer.objects.filter(key="own").exists()


def test_every_whole_number_of_a_query_has_its_bounds():
    for path, ways in schema()["paths"].items():
        for one in ways.get("get", {}).get("parameters", ()):
            kinds = [one["schema"], *one["schema"].get("anyOf", ())]
            for kind in kinds if one["in"] == "query" else ():
                assert kind.get("type") != "integer" or ("maximum" in kind and "minimum" in kind), (path, one["name"])
    answer = Program("operator").client.get(f"{API}/failures?search=99999999999999999999")
    assert answer.status_code == 422 and "search" in answer.json()["fields"]


def test_problems_come_in_pages_and_one_is_read_alone(monkeypatch):
    for name in ("relu", "relu-x", "relu-y"):
        make_problem(name)
    monkeypatch.setattr(library, "MOST_PROBLEMS", 2)
    read = Program("operator").client.get
    first = read(f"{API}/problems").json()
    second = read(f"{API}/problems?after={first['next']}").json()
    slugs = [row["slug"] for row in first["items"] + second["items"]]
    assert (len(first["items"]), second["next"], len(set(slugs))) == (2, None, 3)
    assert [read(f"{API}/problems/{slug}").json()["slug"] for slug in slugs] == slugs
    for room in ("problems", "rules", "kernels", "activity", "failures"):
        name = "search" if room == "failures" else "after"
        assert read(f"{API}/{room}?{name}={2**63 - 1}").status_code == 200, room
