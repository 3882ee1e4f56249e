"""Steering by forms: roles, fragments, refusals with what was typed, the list of acts with Undo, what-if."""

from __future__ import annotations

import pytest

from adaexplore_site.core.models import AuditEntry
from search.records.models import Node, Run
from tests.pages import client_of, full_run
from tests.search.makers import Worker, make_run
from tests.search.steered import steer_note, steer_pin, steer_prune

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


@pytest.fixture
def run() -> Run:
    return full_run()


@pytest.fixture
def follow_ups(monkeypatch):
    sent = []
    monkeypatch.setattr("search.records.queue.send", sent.extend)
    return sent


FORMS = [
    ({"act": "pin", "number": "1", "quota": "4"}, "is pinned: the next 4 selections at or below it"),
    ({"act": "prune", "number": "1"}, "is pruned"),
    ({"act": "boost", "number": "1", "boost": "0.4"}, "has +0.4 added to its score"),
    ({"act": "force", "number": "1", "kind": "small"}, "takes a small step next"),
    ({"act": "force", "kind": "large"}, "The next possible step is a large one"),
    ({"act": "note", "number": "1", "text": "mind the tail"}, "mind the tail"),
    ({"act": "params", "w": "0.5", "was-w": "0.3", "rho": "1.0", "was-rho": "1.0"}, "w 0.3 → 0.5"),
    ({"act": "limits", "steps": "7"}, "Budget added"),
    ({"act": "inject", "number": "1", "source": "class ModelNew: pass"}, "was written by hand, below node 1"),
]


@pytest.mark.parametrize(("fields", "words"), FORMS, ids=lambda value: value["act"] if isinstance(value, dict) else "")
def test_a_form_acts_once_and_the_list_of_acts_offers_to_undo_it(run, follow_ups, fields, words):
    operator = client_of("operator")
    for _ in range(2):
        answer = operator.post(f"/s/{run.pk}/steer", {**fields, "key": "k", "panel": fields.get("number", "")})
        assert answer.status_code == 302
    html = operator.get(f"/s/{run.pk}/activity/").content.decode()
    assert words in html and "some-operator" in html
    done = AuditEntry.objects.get(key="k")
    activity = f"/s/{run.pk}/activity/"
    assert f'action="/activity/{done.pk}/undo"' in html and f'name="back" value="{activity}"' in html
    name, value = ("action", done.pk) if fields["act"] == "limits" else ("seq", done.after["seq"])
    undo = {"act": "limits-undo" if name == "action" else "undo", name: value, "back": activity, "key": "u"}
    answer = operator.post(f"/s/{run.pk}/steer", undo)
    assert answer["Location"] == activity
    assert "undone" in operator.get(f"/s/{run.pk}/activity/").content.decode()


def test_a_finished_search_takes_more_steps_by_its_page_and_goes_on(follow_ups):
    run, operator = Worker().run(make_run(steps=2)), client_of("operator")
    page_text = operator.get(f"/s/{run.pk}/").content.decode()
    assert "Add and resume" in page_text and 'name="steps"' in page_text and 'name="tokens"' not in page_text
    for _ in range(2):
        assert operator.post(f"/s/{run.pk}/steer", {"act": "limits", "steps": "3", "key": "k"}).status_code == 302
    run.refresh_from_db()
    assert (run.state, run.steps, [follow_up.target for follow_up in follow_ups]) == (Run.State.RUNNING, 5, [run.pk])
    for address in ("", "activity/"):
        assert "steps 2 → 5" in operator.get(f"/s/{run.pk}/{address}").content.decode()
    assert "Add and resume" not in client_of("viewer").get(f"/s/{run.pk}/").content.decode()


def test_scripts_get_the_node_s_panel_with_what_is_in_force(run, follow_ups):
    operator = client_of("operator")
    fields = {"act": "pin", "number": "1", "quota": "4", "panel": "1", "key": "k"}
    html = operator.post(f"/s/{run.pk}/steer", fields, headers=HTMX).content.decode()
    assert html.strip().startswith("<article") and "Pinned: 4 selections left" in html


def test_the_panel_of_a_node_says_why_it_cannot_be_steered(run):
    operator, place = client_of("operator"), f"/s/{run.pk}/n/1/"
    assert 'data-cannot=""' in operator.get(place).content.decode()
    steer_prune(run=run, number=1, user=None)
    assert 'data-cannot="it is pruned: restore it first"' in operator.get(place).content.decode()
    Run.objects.filter(pk=run.pk).update(state="finished")
    assert 'data-cannot="the search has ended"' in operator.get(place).content.decode()


def test_a_refused_kernel_comes_back_with_the_reason(run, follow_ups):
    operator = client_of("operator")
    fields = {"act": "inject", "number": "1", "source": "def mine(:", "panel": "1", "key": "k"}
    for headers in ({}, HTMX):
        answer = operator.post(f"/s/{run.pk}/steer", fields, headers=headers)
        html = answer.content.decode()
        assert answer.status_code == 422 and "def mine(:" in html and "line 1" in html
    assert follow_ups == []


@pytest.mark.parametrize(
    "fields",
    [
        {"act": "pin", "number": "one", "quota": "1"},
        {"act": "pin", "number": "1", "quota": ""},
        {"act": "boost", "number": "1", "boost": "much"},
        {"act": "params", "w": "much", "was-w": "0.3"},
        {"act": "undo", "seq": "²"},
    ],
)
def test_fields_that_make_no_sense_are_refused_with_a_sentence(run, follow_ups, fields):
    answer = client_of("operator").post(f"/s/{run.pk}/steer", fields)
    assert answer.status_code == 422 and "notice-error" in answer.content.decode()
    assert not AuditEntry.objects.filter(verb__startswith="steer.").exists()


def test_an_action_that_there_is_not_is_404(run):
    answer = client_of("operator").post(f"/s/{run.pk}/steer", {"act": "nonsense"})
    assert answer.status_code == 404 and not AuditEntry.objects.filter(verb__startswith="steer.").exists()


def test_a_viewer_sees_what_is_in_force_but_no_forms(run):
    steer_prune(run=run, number=1, user=None)
    steer_pin(run=run, number=3, quota=2, user=None)
    viewer = client_of("viewer")
    html = viewer.get(f"/s/{run.pk}/").content.decode()
    assert "2 selections left" in html and "/steer" not in html
    panel = viewer.get(f"/s/{run.pk}/n/2/").content.decode()
    assert "above it was pruned" in panel and "/steer" not in panel
    assert "pruned" in viewer.get(f"/s/{run.pk}/?tab=table").content.decode()


def test_a_search_whose_acts_are_all_undone_does_not_say_that_nobody_steered_it(run, follow_ups):
    operator, page_of = client_of("operator"), f"/s/{run.pk}/"
    assert "This search has not been steered" in operator.get(page_of).content.decode()
    operator.post(f"{page_of}steer", {"act": "prune", "number": "1", "key": "a"})
    seq = AuditEntry.objects.get(verb="steer.prune").after["seq"]
    operator.post(f"{page_of}steer", {"act": "undo", "seq": seq, "key": "b"})
    html = operator.get(page_of).content.decode()
    assert "has not been steered" not in html and "used up or undone. See Activity" in html


def test_a_pause_can_be_taken_back_from_the_list(run):
    operator = client_of("operator")
    operator.post(f"/s/{run.pk}/pause", {"key": "p"})
    html, done = operator.get(f"/s/{run.pk}/activity/").content.decode(), AuditEntry.objects.get(key="p")
    assert f'action="/activity/{done.pk}/undo"' in html and ">Resume</button>" in html


def test_branching_leads_to_the_new_search(run, follow_ups):
    Node.objects.filter(run=run, number=2).update(source="class ModelNew: pass\n")
    operator = client_of("operator")
    answer = operator.post(f"/s/{run.pk}/n/2/branch", {"steps": "6", "key": "k"})
    new = Run.objects.latest("pk")
    assert (answer["Location"], new.steps) == (f"/s/{new.pk}/", 7)
    assert f"node 2 of search {run.pk}" in operator.get(f"/s/{new.pk}/n/1/").content.decode()
    assert f"Search {new.pk}" in operator.get(f"/s/{run.pk}/n/2/").content.decode()
    refused = operator.post(f"/s/{run.pk}/n/0/branch", {"steps": "6"})
    assert refused.status_code == 409 and "no kernel to branch from" in refused.content.decode()


def test_hostile_notes_are_escaped(run):
    steer_note(run=run, number=1, text="<img src=x onerror=alert(1)>", user=None)
    viewer = client_of("viewer")
    for path in ("", "n/2/", "activity/"):
        html = viewer.get(f"/s/{run.pk}/{path}").content.decode()
        assert "<img" not in html and "&lt;img" in html, path


def test_what_another_policy_would_do_is_json_and_a_page():
    run = Worker().run(make_run(steps=6))
    viewer = client_of("viewer")
    now = viewer.get(f"/s/{run.pk}/counterfactual/?policy=greedy").json()
    assert (now["step"], now["params"]["policy"], now["taken"]) == (7, "greedy", None)
    best = max(now["arms"], key=lambda arm: arm["score"])
    assert best["chosen"] and best["node"] == now["decision"]["parent"]
    then = viewer.get(f"/s/{run.pk}/counterfactual/?at=4").json()
    assert then["taken"]["same"] is True and then["why"] == run.nodes.get(number=4).why
    assert "Node 4 was reserved in exactly this way" in viewer.get(f"/s/{run.pk}/what-if/?at=4").content.decode()
    piece = viewer.get(f"/s/{run.pk}/what-if/?policy=independent", headers=HTMX).content.decode()
    assert "from the start" in piece and "<html" not in piece


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("policy=oracle", "policy must be one of"),
        ("at=99", "Step 99 is not in the log"),
        ("at=x", "number of a step"),
        ("w=much", "w must be a number"),
        ("speed=1", "no parameter speed"),
    ],
)
def test_a_what_if_about_nothing_says_what_to_ask(query, words):
    run, viewer = make_run(), client_of("viewer")
    answer = viewer.get(f"/s/{run.pk}/counterfactual/?{query}")
    assert answer.status_code == 422 and words in answer.json()["error"]
    assert viewer.get(f"/s/{run.pk}/what-if/?{query}").status_code == 422


@pytest.mark.parametrize("panel", ["abc", "99999", "²", "-1"])
def test_a_panel_that_is_not_there_leads_back_to_the_search_once_the_act_is_done(run, follow_ups, panel):
    answer = client_of("operator").post(f"/s/{run.pk}/steer", {"act": "limits", "steps": "3", "panel": panel})
    assert (answer.status_code, answer.url) == (302, f"/s/{run.pk}/")
    assert AuditEntry.objects.filter(verb="run.budget").count() == 1


@pytest.mark.parametrize("number", ["--3", "-", "²", "1e3"])
def test_a_number_that_is_none_is_refused_in_words(run, follow_ups, number):
    answer = client_of("operator").post(f"/s/{run.pk}/steer", {"act": "pin", "number": number, "quota": "4"})
    assert answer.status_code == 422
    assert "Enter a whole number for the node" in answer.content.decode()
