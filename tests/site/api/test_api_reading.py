"""Reading by the API: what the pages say, in JSON and CSV, with evidence beside each number and null for unknown."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.contrib.staticfiles import finders
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from adaexplore_site.accounts.models import ApiToken
from adaexplore_site.accounts.services import token_issue, token_revoke
from adaexplore_site.api.shapes import flat
from adaexplore_site.api.site import schema
from adaexplore_site.core.audit import ActionRefused
from judge.evaluations.measures import BESIDE_COLUMNS
from memory.rules.files import rules_import
from memory.rules.models import Rule
from search.engine.steps import reply_submit
from search.proposers import get as get_proposer
from search.records.models import Node
from tests.pages import adapt, client_of, full_run
from tests.search.live_rows import grow, new_best, reserve
from tests.search.makers import Worker, make_run

pytestmark = pytest.mark.django_db
API = "/api/v1"
KERNEL = "```python\nimport torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n```\n"


@pytest.fixture
def reader() -> Client:
    return client_of("viewer")


def get(client: Client, path: str, **query):
    answer = client.get(f"{API}{path}", query)
    assert answer.status_code == 200, (path, answer.content)
    return answer.json()


def test_a_speedup_comes_with_all_its_evidence(reader):
    run = full_run()
    best = get(reader, f"/searches/{run.pk}")["best"]
    beside = set(BESIDE_COLUMNS)
    assert set(best) == {"value", "n", "interval", "method", "device", "basis", "audit", *beside}
    assert (best["value"], best["basis"], best["device"]) == (3.0, "MODELLED", "interpreter")
    assert best["interval"]["low"] < 3.0 < best["interval"]["high"]
    node = get(reader, f"/searches/{run.pk}/nodes/2")
    assert node["speedup"] == best and node["source"].startswith("import torch")
    wrong = get(reader, f"/searches/{run.pk}/nodes/3")
    assert wrong["speedup"] is None and wrong["verdict"] not in (None, "pass")


def test_a_node_that_waits_for_a_reply_gives_its_prompt_until_it_is_answered(reader):
    worker, run = Worker(get_proposer("manual")), make_run(proposer="manual", steps=1)
    worker.proposer = get_proposer
    worker.run(run)
    place = f"/searches/{run.pk}/nodes/1"
    asked_for = get(reader, place)
    prompt = run.nodes.get(number=1).proposals.get().prompt
    assert (asked_for["waits_for"], asked_for["prompt"]) == ("reply", prompt) and run.problem.source.strip() in prompt
    assert Client().get(API + place).status_code == 401
    worker.work(reply_submit(node=run.nodes.get(number=1), text=KERNEL, user=None))
    done = get(reader, place)
    assert (done["state"], done["waits_for"], done["prompt"]) == ("told", None, None)


def test_a_node_whose_kernel_is_judged_elsewhere_waits_for_the_outcome(reader):
    run = make_run(steps=2)
    judging, proposing = reserve(run), reserve(run)
    Node.objects.filter(pk=judging.pk).update(state=Node.State.JUDGING)
    assert get(reader, f"/searches/{run.pk}/nodes/{judging.number}")["waits_for"] is None
    type(run.device).objects.update(remote=True)
    found = [get(reader, f"/searches/{run.pk}/nodes/{one.number}") for one in (judging, proposing)]
    assert [(one["waits_for"], one["prompt"]) for one in found] == [("outcome", None), (None, None)]


def test_unknown_is_null_and_never_0(reader):
    run = make_run()
    found = get(reader, f"/searches/{run.pk}")
    for name in ("best", "best_node", "eta_s", "median_step_s", "ended_at", "limit_usd"):
        assert found[name] is None, name
    assert found["cost"] == {"calls": 0, "usd": None, "unpriced": 0} and found["proposals"]["tokens"] is None
    spend = get(reader, "/spend")
    assert spend["total"]["usd"] is None and spend["total"]["tokens_in"] is None and spend["items"] == []


def test_every_reading_operation_answers_in_json_and_csv(reader):
    run = full_run()
    rules_import(data=b"Do not call tl.cumprod.||3\n", name="r.txt", user=None)
    adapt(run)
    values = {"run_id": run.pk, "number": 2, "slug": "relu", "rule_id": Rule.objects.get().pk, "key": "no-cluster"}
    for path, methods in schema()["paths"].items():
        if "get" not in methods:
            continue
        address = path.format(**values)
        missing = 404 if "no-cluster" in address else 200
        assert reader.get(address).status_code == missing, address
        if any(row["name"] == "format" for row in methods["get"]["parameters"]):
            answer = reader.get(address, {"format": "csv"})
            assert (answer.status_code, answer["Content-Type"]) == (200, "text/csv; charset=utf-8"), address


def test_a_csv_has_the_same_rows_with_objects_as_columns(reader):
    full_run()
    make_run(title="=1+1")
    rows = get(reader, "/searches")["items"]
    text = reader.get(f"{API}/searches", headers={"Accept": "text/csv"}).content.decode()
    table = list(csv.DictReader(io.StringIO(text)))
    assert [row["id"] for row in table] == [str(row["id"]) for row in rows]
    assert table[1]["best.value"] == "3.0" and table[0]["best.value"] == "" and table[0]["title"] == "'=1+1"
    assert flat({"a": {"b": None}, "c": [1]}) == {"a.b": None, "c": "[1]"}


def test_lists_go_on_where_the_page_before_ended(reader):
    runs = [make_run().pk for _ in range(3)]
    first = get(reader, "/searches", limit=2)
    assert [row["id"] for row in first["items"]] == runs[:0:-1] and first["next"] == runs[1]
    last = get(reader, "/searches", limit=2, after=first["next"])
    assert [row["id"] for row in last["items"]] == runs[:1] and last["next"] is None
    filled = full_run()
    nodes = get(reader, f"/searches/{filled.pk}/nodes", limit=2)
    assert [row["number"] for row in nodes["items"]] == [0, 1] and nodes["next"] == 1
    rest = get(reader, f"/searches/{filled.pk}/nodes", after=1)
    assert [row["number"] for row in rest["items"]] == [2, 3, 4]
    events = get(reader, f"/searches/{filled.pk}/events", since=1)
    assert [row["seq"] for row in events["items"]] == list(range(2, filled.event_seq + 1))


def test_the_number_of_queries_does_not_grow_with_the_rows(reader):
    def cost() -> int:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            get(reader, "/searches")
        return len(queries)

    new_best(grow(make_run(), speedup=2.0))
    one = cost()
    for _ in range(4):
        new_best(grow(make_run(), speedup=2.0))
    assert cost() == one


def test_what_cannot_be_asked_is_422_or_404_in_json(reader):
    answer = reader.get(f"{API}/kernels", {"basis": "guessed"})
    assert answer.status_code == 422 and "basis" in answer.json()["fields"]
    for path in ("/searches/999", "/problems/none", "/rules/99", "/failures/none"):
        missing = reader.get(API + path)
        assert missing.status_code == 404 and missing.json()["detail"], path
    assert reader.get(f"{API}/activity", {"from": "yesterday"}).status_code == 422
    assert reader.get(f"{API}/spend", {"from": "2026-02-02", "to": "2026-02-01"}).status_code == 422


def issue(**more):
    user = User.objects.get_or_create(username="robot")[0]
    given = {"name": "ci", "scopes": ["read"], "days": None, "user": user, "now": timezone.now(), **more}
    return token_issue(**given)


def asked(text: str, **headers: str) -> int:
    return Client(headers={"Authorization": f"Bearer {text}", **headers}).get(f"{API}/me").status_code


def test_a_token_ends_when_it_expires_is_revoked_or_its_user_is_switched_off():
    token, text = issue()
    assert asked(text) == 200 and text not in str(ApiToken.objects.values()) and token.prefix == text[:10]
    assert asked(issue(days=1, now=timezone.now() - timedelta(days=2))[1]) == 401
    token_revoke(token=token, user=token.user, now=timezone.now())
    assert asked(text) == 401
    other = issue()[1]
    User.objects.update(is_active=False)
    assert asked(other) == 401


def test_the_last_use_is_written_at_most_once_a_minute():
    token, text = issue()
    asked(text)
    token.refresh_from_db()
    first = token.last_used_at
    asked(text)
    token.refresh_from_db()
    assert token.last_used_at == first
    ApiToken.objects.update(last_used_at=timezone.now() - timedelta(seconds=61))
    asked(text)
    token.refresh_from_db()
    assert token.last_used_at > first


def test_wrong_tokens_are_slowed_and_never_logged_while_right_ones_pass(caplog, settings):
    settings.AXES_FAILURE_LIMIT = 3
    right, wrong = issue()[1], "ada_not-a-token"
    assert [asked(wrong) for _ in range(4)] == [401, 401, 401, 429]
    assert asked(right) == 200 and wrong not in caplog.text and right not in caplog.text
    stranger = Client().get(f"{API}/searches")
    assert stranger.status_code == 401 and "Bearer" in stranger.json()["detail"]


def test_a_token_never_gets_more_than_its_user_may():
    with pytest.raises(ActionRefused, match="needs the role operator"):
        issue(scopes=["read", "steer"])
    for wrong in ({"scopes": []}, {"scopes": ["king"]}, {"name": " "}, {"days": 0}):
        with pytest.raises(ActionRefused):
            issue(**wrong)
    assert not ApiToken.objects.exists()


def test_the_settings_page_shows_a_token_once_and_revokes_it():
    operator = client_of("operator")
    fields = {"name": "nightly", "scope": ["read", "steer"], "days": "30", "key": "k"}
    page = operator.post("/settings/tokens/issue", fields).content.decode()
    token = ApiToken.objects.get()
    assert token.prefix in page and "it is not shown again" in page and token.scopes == ["read", "steer"]
    again = operator.post("/settings/tokens/issue", fields)
    assert again.status_code == 409 and ApiToken.objects.count() == 1
    assert "nightly" not in client_of("reviewer").get("/settings/tokens/").content.decode()
    assert client_of("reviewer", "eve").post(f"/settings/tokens/{token.pk}/revoke").status_code == 409
    assert operator.post(f"/settings/tokens/{token.pk}/revoke", {"key": "r"}).status_code == 302
    token.refresh_from_db()
    assert token.revoked_at and "revoked" in operator.get("/settings/tokens/").content.decode()


def test_the_document_lists_every_operation_with_a_name_and_a_summary(reader):
    found = reader.get(f"{API}/openapi.json").json()
    assert found["openapi"].startswith("3.") and found["paths"].keys() == schema()["paths"].keys()
    assert len(found["paths"]) > 80
    for path, methods in found["paths"].items():
        assert all(one["summary"] and one["operationId"] for one in methods.values()), path


def test_the_reference_is_swagger_ui_from_this_site_that_can_only_read(reader):
    page = reader.get(f"{API}/docs")
    html = page.content.decode()
    sources = re.findall(r'<(?:script|link)[^>]+(?:src|href)="([^"]+)"', html)
    assert "/static/ninja/swagger-ui-bundle.js" in sources
    assert all(one.startswith("/static/") or one == "/catalog.js" for one in sources)
    for name in ("swagger-ui-bundle.js", "swagger-ui.css"):
        assert finders.find(f"ninja/{name}"), name
    chosen = json.loads(re.search(r'id="swagger-settings">(.*?)</script>', html, re.S)[1])
    assert chosen["url"] == f"{API}/openapi.json" and chosen["supportedSubmitMethods"] == ["get"]
    assert chosen["validatorUrl"] is None
    policy = page.headers["Content-Security-Policy"]
    assert "unsafe" not in policy and "'self'" in policy


def test_a_state_that_there_is_not_is_refused_instead_of_listing_all():
    answer = client_of("viewer").get("/api/v1/searches", {"state": "bogus"})
    assert answer.status_code == 422 and "running" in answer.content.decode()
