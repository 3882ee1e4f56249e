"""Activity over everything: words, filters, pages, files, and Undo by whoever may."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from adaexplore_site.accounts.services import member_roles
from adaexplore_site.activity import trail
from adaexplore_site.core.audit import action_on
from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from memory.failures.models import FailureCluster
from memory.prompting.scopes import Scope
from memory.rules.models import Rule
from search.batches.campaigns import CAMPAIGNS
from search.batches.models import Campaign
from search.fleet.services import device_state_set
from search.records.models import Run
from search.runs.services import run_pause
from tests.memory.decisions import cluster_mute, rule_approve, rule_create
from tests.memory.failure_rows import cluster_of
from tests.pages import HOSTILE, client_of, full_run
from tests.search.makers import make_device, make_run
from tests.search.steered import run_archive, run_budget_add, run_concurrency, steer_prune

pytestmark = pytest.mark.django_db


@pytest.fixture
def follow_ups(monkeypatch):
    sent = []
    monkeypatch.setattr("search.records.queue.send", sent.extend)
    return sent


def text_of(client, query: str = "") -> str:
    answer = client.get(f"/activity/{query}")
    assert answer.status_code == 200
    return answer.content.decode()


def newest(verb: str) -> AuditEntry:
    return AuditEntry.objects.filter(verb=verb).latest("pk")


def undo(client, verb: str, **more):
    return client.post(f"/activity/{newest(verb).pk}/undo", {"key": f"undo-{verb}", **more})


def test_nothing_done_says_so_and_leads_on():
    assert "No actions yet" in text_of(client_of("viewer"))


def test_an_act_shows_who_what_on_what_and_what_changed():
    run = full_run()
    run_pause(run=run, user=User.objects.create_user("ada"))
    html = text_of(client_of("viewer"))
    for words in ("ada", "Paused the search", f'href="/s/{run.pk}/"', "state running → paused", "a command"):
        assert words in html
    assert "<img src=x" not in html and "needs the role operator" in html


def some_acts(run: Run) -> dict[str, str]:
    """One act of each kind that can be undone, and who may undo it."""
    person = User.objects.create_user("somebody")
    ended = make_run()
    steer_prune(run=run, number=1, user=person)
    run_concurrency(run=run, concurrency=3, user=person)
    device_state_set(device=make_device(), state=Device.State.DRAINING, user=person)
    campaign = Campaign.objects.create(title="many", device=make_device(), proposer="builtin", steps=5)
    CAMPAIGNS.pause(campaign, user=person)
    cluster_mute(cluster=FailureCluster.objects.get(pk=cluster_of(run, count=1).pk), user=person)
    rule = rule_create(text="Do not call tl.dot on one row.", scope=Scope(), user=person).object_id
    card = {"rule_id": int(rule), "revision": 0, "user": person, "key": None}
    rule_approve(now=Rule.objects.get(pk=rule).created_at, **card)
    member_roles(member=person, roles=["reviewer"], user=person)
    Run.objects.filter(pk=ended.pk).update(state="finished")
    run_archive(run=ended, archived=True, user=person)
    return {
        "steer.prune": "operator",
        "run.concurrency": "operator",
        "device.drain": "operator",
        "campaign.pause": "operator",
        "cluster.mute": "reviewer",
        "rule.approve": "reviewer",
        "member.roles": "admin",
        "run.archive": "operator",
    }


def test_each_kind_of_act_is_undone_here_once_and_by_the_right_role_alone(follow_ups):
    acts = some_acts(full_run())
    clients = {role: client_of(role) for role in ("viewer", "operator", "reviewer", "admin")}
    for verb, role in acts.items():
        wrong = clients["reviewer" if role == "operator" else "operator"]
        assert undo(clients["viewer"], verb).status_code == 403, verb
        assert undo(wrong, verb).status_code == 403, verb
        before, first = AuditEntry.objects.count(), newest(verb)
        back = f"/activity/?verb=steer#act-{first.pk}"
        answer = undo(clients[role], verb, query="?verb=steer", back=back)
        assert (answer.status_code, answer["Location"]) == (302, f"/activity/?verb=steer#act-{first.pk}"), verb
        assert AuditEntry.objects.count() > before, verb
        count = AuditEntry.objects.count()
        repeated = clients[role].post(f"/activity/{first.pk}/undo", {"key": f"undo-{verb}"})
        assert repeated.status_code == 302 and AuditEntry.objects.count() == count, verb
        again = clients[role].post(f"/activity/{first.pk}/undo", {"key": f"again-{verb}"})
        if verb != "member.roles":  # what gave no other roles may be given again
            assert again.status_code == 409 and re.search("(not|be) undone", again.content.decode()), verb
            assert AuditEntry.objects.count() == count, verb
    assert Device.objects.get(name="interpreter").state == "active"
    assert not Run.objects.exclude(archived_at=None).exists() and Rule.objects.get().state == "proposed"


def test_a_budget_and_a_pause_are_taken_back_and_the_search_goes_on(follow_ups):

    run = full_run()
    run_budget_add(run=run, delta={"steps": "7"}, user=None)
    run_pause(run=run, user=None)
    operator = client_of("operator")
    assert undo(operator, "run.pause").status_code == 302
    assert undo(operator, "run.budget").status_code == 302
    run.refresh_from_db()
    assert (run.state, run.steps) == ("running", 10) and [follow_up.target for follow_up in follow_ups] == [run.pk]


def test_what_was_replaced_or_cannot_be_undone_says_why(follow_ups):
    run = full_run()
    run_concurrency(run=run, concurrency=2, user=None)
    run_concurrency(run=run, concurrency=3, user=None)
    operator = client_of("operator")
    html = text_of(operator)
    assert "replaced" in html and "stop it on its page" in html
    first = AuditEntry.objects.filter(verb="run.concurrency").earliest("pk")
    answer = operator.post(f"/activity/{first.pk}/undo", {"key": "k"})
    run.refresh_from_db()
    assert answer.status_code == 409 and "replaced" in answer.content.decode() and run.concurrency == 3


def test_filters_narrow_and_nonsense_is_named():
    run, other = make_run(title="alpha"), make_run(title="beta")
    run_pause(run=run, user=User.objects.create_user("ada"))
    viewer = client_of("viewer")
    assert "alpha" in text_of(viewer, "?who=ada") and "beta" not in text_of(viewer, "?who=ada")
    assert "beta" in text_of(viewer, f"?object=search+{other.pk}")
    assert "alpha" not in text_of(viewer, f"?object=run:{other.pk}")
    assert "Paused" in text_of(viewer, "?verb=run.pause") and "Started" not in text_of(viewer, "?verb=run.pause")
    assert "Paused" in text_of(viewer, "?verb=run") and "No actions match" in text_of(viewer, "?to=2020-01-01")
    assert "alpha" in text_of(viewer, "?from=2020-01-01")
    assert "does not name an object" in text_of(viewer, "?object=%3Cscript%3E") and "is not a date" in text_of(
        viewer, "?from=soon"
    )
    assert viewer.get("/activity/activity.json?from=soon").status_code == 400
    assert viewer.get("/activity/?before=x&who=%00").status_code in (200, 400)


def test_pages_go_on_below_the_last_act(monkeypatch):
    monkeypatch.setattr(trail, "PAGE", 2)
    runs = [make_run(title=f"run number {k}") for k in range(3)]
    viewer = client_of("viewer")
    last = AuditEntry.objects.order_by("-pk")[1].pk
    html = text_of(viewer)
    assert f"?before={last}" in html and runs[0].title not in html
    older = text_of(viewer, f"?before={last}")
    assert runs[0].title in older and runs[2].title not in older and "Newest" in older


def test_the_files_hold_the_filter_s_acts_and_no_formula():
    run = make_run(title="=1+1")
    make_run(title="other")
    viewer = client_of("viewer")
    answer = viewer.get(f"/activity/activity.csv?object=search+{run.pk}")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert len(rows) == 1 and rows[0]["verb"] == "run.start" and rows[0]["name"].startswith("'=1+1")
    document = json.loads(viewer.get(f"/activity/activity.json?object=search+{run.pk}").content)
    assert document["acts"][0]["after"]["steps"] == run.steps and document["more"] is None
    assert viewer.get("/activity/activity.xml").status_code == 404


def test_a_page_of_many_acts_costs_as_many_queries_as_one_of_few():
    viewer, counts = client_of("viewer"), []
    for more in (1, 6):
        for _ in range(more):
            run = full_run()
            steer_prune(run=run, number=1, user=None)
            run_pause(run=run, user=None)
        with CaptureQueriesContext(connection) as queries:
            assert viewer.get("/activity/").status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_hostile_names_and_things_that_are_gone_are_shown_as_text():
    action_on(verb="device.drain", on=("device", 999), user=None, key=None, after={"reason": HOSTILE, "state": "x"})
    action_on(verb="no.such", on=("run", 998), user=None, key=None, before={"title": HOSTILE}, after={})
    html = text_of(client_of("operator"))
    assert "<img src=x" not in html and "(deleted)" in html and "\u202e" not in html
