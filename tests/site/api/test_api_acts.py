"""Acts by the API: one operation for each of the registry, the same roles, one act per key, errors that help."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from adaexplore_site.accounts.models import ApiToken
from adaexplore_site.accounts.services import SCOPES, token_issue
from adaexplore_site.actions.registry import actions
from adaexplore_site.api.site import act_path, schema
from adaexplore_site.core.models import AuditEntry
from memory.rules.files import rules_import
from memory.rules.models import Rule
from search.batches.models import Campaign
from search.records.models import Run
from search.runs.services import run_stop
from tests.pages import BACKEND, full_run
from tests.search.makers import make_device, make_problem, make_run
from tests.site.api.asked import asked

pytestmark = pytest.mark.django_db
API = "/api/v1"


class Program:
    """Sends JSON with a token."""

    def __init__(self, *roles: str, scopes: tuple[str, ...] = tuple(SCOPES), name: str = "robot") -> None:
        self.user = User.objects.create_user(name, is_superuser="admin" in roles)
        self.user.groups.add(*(Group.objects.get_or_create(name=role)[0] for role in roles))
        held = [
            scope for scope in scopes if scope == "read" or NEED[scope] in (*roles, *(ALL if "admin" in roles else ()))
        ]
        self.token, self.text = token_issue(name="ci", scopes=held, days=None, user=self.user, now=timezone.now())
        self.client = Client(enforce_csrf_checks=True, headers={"Authorization": f"Bearer {self.text}"})

    def act(self, path: str, fields: dict | None = None, key: str = "", **more):
        headers = {"Idempotency-Key": key} if key else {}
        return self.client.post(
            f"{API}/acts/{path}", json.dumps(fields or {}), "application/json", headers=headers, **more
        )


NEED = {"steer": "operator", "review": "reviewer", "admin": "admin"}
ALL = ("operator", "reviewer")


def place(act, values: dict[str, object]) -> str:
    return API + "/".join([f"/acts/{act.name}", *(str(values[name]) for name in act.takes)])


def test_every_act_is_an_operation_that_refuses_viewers_and_strangers():
    run = full_run()
    values = {"run_id": run.pk, "number": 2, "device_id": run.device_id, "device": "interpreter", "key": "abcdefabcdef"}
    viewer, paths = Program("viewer"), schema()["paths"]
    for act in actions():
        path = API + act_path(act)
        assert paths[path]["post"]["operationId"] == act.name
        known = {name: values.get(name, 1) for name in act.takes}
        sent = {ask.name: sample(ask.type) for ask in asked(act.name) if ask.needed}
        answer = viewer.client.post(place(act, known), json.dumps(sent), "application/json")
        assert (answer.status_code, "role" in answer.json()["detail"]) == (403, True), (act.name, answer.content)
        stranger = Client(enforce_csrf_checks=True).post(place(act, known), json.dumps(sent), "application/json")
        assert stranger.status_code == 401 and stranger["WWW-Authenticate"] == "Bearer", act.name
    assert set(AuditEntry.objects.values_list("verb", flat=True)) == {"run.start", "token.issue"}


def sample(kind: object) -> object:
    named = {int: 1, float: 1.0, bool: True, list[str]: ["x"], list[int]: [1], str: "x"}
    return named.get(kind, {"name": "x.py", "text": "x"})


def test_what_an_action_asks_for_is_what_its_form_has():
    for action in actions():
        fields = {one.name: one.needed for one in asked(action.name)}
        form = action.Form.base_fields
        assert fields.keys() - {"sure"} == form.keys() - action.sends.keys(), action.name
        needed = {name for name, one in form.items() if one.required}
        assert {name for name, one in fields.items() if one} <= needed, action.name


def test_an_act_is_done_as_its_form_does_it_and_audited_with_the_token_s_name():
    run, robot = make_run(), Program("operator")
    answer = robot.act(f"run.pause/{run.pk}")
    assert answer.status_code == 200 and answer.json()["said"] == ["Paused. Steps in flight end first."]
    run.refresh_from_db()
    act = AuditEntry.objects.get(verb="run.pause")
    assert (run.state, act.via, act.actor, answer.json()["action"]["id"]) == ("paused", "ci", robot.user, act.pk)
    assert "robot" in (page := browser_of(robot.user).get("/activity/").content.decode()) and "token ci" in page


def test_a_search_is_started_and_what_it_waits_for_is_202():
    problem, robot = make_problem(), Program("operator")
    fields = {"problem": problem.slug, "device": make_device().name, "proposer": "builtin", "steps": 3, "learns": True}
    begun = robot.act("run.start", fields, key="k")
    run = Run.objects.get()
    assert (begun.status_code, begun.json()["at"]) == (200, f"/s/{run.pk}/") and (run.steps, run.owner) == (
        3,
        robot.user,
    )
    problem.admission["interpreter"] = {"state": "running", "started": timezone.now().isoformat(), "stages": []}
    problem.save()
    waits = robot.act("run.start", fields)
    assert (waits.status_code, waits.json()["done"], Run.objects.count()) == (202, False, 1)


def test_what_is_shown_once_is_in_the_first_answer_alone():
    robot = Program("admin")
    fields = {"address": "https://93.184.216.34/", "event": ["search.best"]}
    first, again = (robot.act("webhook.add", fields, key="k") for _ in range(2))
    assert first.json()["secret"] and "secret" not in again.json() and again.json()["repeated"]


def test_a_body_that_is_too_large_or_holds_a_nul_is_told_in_json(settings):
    run, robot = make_run(), Program("operator")
    note = {"number": 0, "text": "a\x00b"}
    assert robot.act(f"steer.note/{run.pk}", note).headers["Content-Type"] == "application/json"
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    assert robot.act(f"steer.note/{run.pk}", note).status_code == 413


def browser_of(user: User) -> Client:
    client = Client()
    client.force_login(user, backend=BACKEND)
    return client


def test_the_same_key_gives_the_first_answer_and_another_body_is_409():
    run, robot = full_run(), Program("operator")
    first = robot.act(f"steer.pin/{run.pk}", {"number": 1, "quota": 2}, key="k")
    again = robot.act(f"steer.pin/{run.pk}", {"number": 1, "quota": 2}, key="k")
    other = robot.act(f"steer.pin/{run.pk}", {"number": 1, "quota": 3}, key="k")
    assert (first.status_code, again.status_code, other.status_code) == (200, 200, 409)
    assert again.json() == {**first.json(), "repeated": True} and "Idempotency-Key" in other.json()["detail"]
    assert AuditEntry.objects.filter(verb="steer.pin").count() == 1
    theirs = Program("operator", name="other").act(f"steer.pin/{run.pk}", {"number": 2, "quota": 1}, key="k")
    assert theirs.status_code == 200 and AuditEntry.objects.filter(verb="steer.pin").count() == 2


def test_many_nodes_are_steered_and_a_filter_that_cannot_be_read_is_422():
    run, robot = full_run(), Program("operator")
    path, sent = f"steer.bulk/{run.pk}", {"act": "boost", "boost": 0.5, "state": ["correct"], "expected": 2}
    done = robot.act(path, sent, key="k")
    assert done.json().get("said") == ["2 nodes have +0.5 added to their scores."]
    assert done.json()["action"]["after"]["words"] == "correct"
    wrong = robot.act(path, sent | {"state": ["odd"]})
    assert wrong.status_code == 422 and "no state 'odd'" in wrong.json()["fields"]["state"]
    fewer = robot.act(path, sent | {"below": 1, "boost": 0.1})
    assert fewer.status_code == 409 and fewer.json()["detail"].startswith("1 node matches now, not 2.")
    rules = Program("reviewer", name="reader").act("rules.bulk", {"act": "approve", "expected": 7})
    assert rules.json()["detail"].startswith("0 rules match now, not 7")


def test_bad_fields_are_422_by_name_and_change_nothing():
    run, robot = full_run(), Program("operator")
    missing = robot.act(f"steer.pin/{run.pk}", {"number": "x", "colour": 1})
    assert missing.status_code == 422
    assert set(missing.json()["fields"]) == {"number", "quota", "colour"}
    start = {"problem": make_problem().slug, "device": "interpreter", "proposer": "nobody", "steps": 0}
    wrong = robot.act("run.start", start)
    assert wrong.status_code == 422 and set(wrong.json()["fields"]) == {"proposer", "steps"}
    limits = robot.act(f"run.budget/{run.pk}", {"steps": -5})
    assert limits.status_code == 422 and "more than 0" in limits.json()["fields"]["steps"]
    assert robot.act("run.start", None).status_code == 422 and Run.objects.count() == 1
    assert robot.client.post(f"{API}/acts/run.start", "{", "application/json").status_code == 400


def test_what_cannot_be_is_409_with_the_values_it_met():
    run, robot = make_run(), Program("operator")
    run_stop(run=run, user=None, drain=False)
    answer = robot.act(f"run.pause/{run.pk}", key="k")
    assert answer.status_code == 409 and answer.json()["now"]["state"] == "stopped" and answer.json()["detail"]
    assert robot.act(f"run.resume/{run.pk}", key="k").status_code == 200  # a refused act has used up no key
    nobody = robot.act("run.pause/999")
    assert nobody.status_code == 404 and "There is no such search." in nobody.content.decode()
    assert Program("reviewer", name="reader").act("cluster.mute/a%20b").status_code == 404


def test_an_act_on_an_older_search_is_refused_with_the_search_of_now():
    run, robot = full_run(), Program("operator")
    path, fields = f"{API}/acts/steer.pin/{run.pk}", json.dumps({"number": 1, "quota": 1})
    old = robot.client.post(path, fields, "application/json", headers={"If-Match": f'"{run.event_seq - 1}"'})
    assert old.status_code == 409 and old.json()["now"] == {"state": "running", "event_seq": run.event_seq}
    new = robot.client.post(path, fields, "application/json", headers={"If-Match": f'"{run.event_seq}"'})
    assert new.status_code == 200
    assert robot.client.post(path, fields, "application/json", headers={"If-Match": "x"}).status_code == 422


def test_an_act_that_stays_needs_the_word_sure():
    campaign = Campaign.objects.create(title="many", device=make_device(), proposer="builtin", steps=5)
    robot = Program("operator")
    asked = robot.act(f"campaign.stop/{campaign.pk}")
    assert asked.status_code == 409 and "sure" in asked.json()["detail"]
    assert robot.act(f"campaign.stop/{campaign.pk}", {"sure": True}).status_code == 200
    campaign.refresh_from_db()
    assert campaign.state == "stopped"


def test_an_older_revision_of_a_rule_is_refused_with_the_rule_of_now(rule):
    robot = Program("reviewer")
    old = robot.act(f"rule.edit/{rule.pk}", {"revision": 7, "text": "Use tl.where in place of masks."})
    assert old.status_code == 409 and old.json()["now"]["revision"] == rule.revision
    new = robot.act(f"rule.reject/{rule.pk}", {"revision": rule.revision, "own_reason": "No."})
    rule.refresh_from_db()
    assert new.status_code == 200 and rule.state == "rejected"


@pytest.fixture
def rule():
    rules_import(data=b"Do not call tl.cumprod in a loop.||3\n", name="rules.txt", user=None)
    return Rule.objects.get()


def test_a_file_comes_as_text_and_is_read_as_an_upload():
    source = (
        "import torch\nfrom torch import nn\nclass Model(nn.Module):\n    def forward(self, x):\n        return x * 2\n"
    )
    source += "def get_inputs():\n    return [torch.randn(4)]\ndef get_init_inputs():\n    return []\n"
    robot = Program("operator")
    answer = robot.act("problem.upload", {"file": {"name": "double.py", "text": source}})
    assert answer.status_code == 200 and answer.json()["at"].startswith("/new?problem=")
    bad = robot.act("problem.upload", {"file": {"name": "no.py", "text": "x = ("}})
    assert bad.status_code == 422 and bad.json()["detail"]


def test_a_scope_that_is_missing_keeps_its_role_away():
    run = make_run()
    reader = Program("operator", scopes=("read",))
    answer = reader.act(f"run.pause/{run.pk}")
    assert answer.status_code == 403 and "scope" in answer.json()["detail"]
    assert reader.client.get(f"{API}/me").json() == {"user": "robot", "roles": ["viewer"], "token": "ci"}


def test_a_session_reads_and_needs_its_csrf_token_to_act():
    run, robot = make_run(), Program("operator")
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(robot.user, backend=BACKEND)
    assert browser.get(f"{API}/searches").status_code == 200
    path = f"{API}/acts/run.pause/{run.pk}"
    refused = browser.post(path, "{}", "application/json")
    assert refused.status_code == 403 and "CSRF" in refused.json()["detail"]
    browser.cookies["adaexplore_csrf"] = secret = "a" * 32
    assert browser.post(path, "{}", "application/json", headers={"X-CSRFToken": secret}).status_code == 200


def test_a_token_cannot_make_another():
    answer = Program("operator").act("token.issue", {"name": "more", "scope": ["read"]})
    assert answer.status_code == 409 and ApiToken.objects.count() == 1


def test_only_the_parameters_of_a_search_are_asked_for_without_names():
    assert [action.name for action in actions() if action.open_schema] == ["steer.params"]
