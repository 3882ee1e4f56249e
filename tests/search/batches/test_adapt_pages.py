"""The pages of adapt runs: start, watch, steer, read the effect, take the data home."""

from __future__ import annotations

import csv
import io

import pytest

from judge.problems.models import Problem
from memory.adapt.models import AdaptRun
from memory.failures.models import Failure
from memory.rules.models import Sighting
from tests.memory.decisions import rule_approve
from tests.memory.rule_rows import card, failures, rule
from tests.pages import client_of
from tests.search.adapt_rows import AdaptWorker, make_adapt, make_samples, searches
from tests.search.campaign_rows import AdmittingBench
from tests.search.makers import make_device, make_problem

pytestmark = pytest.mark.django_db

FORM = {
    "tasks": "2",
    "steps": "2",
    "control_steps": "1",
    "composer": "builtin",
    "device": "interpreter",
    "proposer": "builtin",
    "preset": "adapt",
    "trust": "auto",
    "threshold": "3",
    "at_once": "1",
    "concurrency": "1",
    "key": "k1",
}


@pytest.fixture(autouse=True)
def sent(monkeypatch) -> list:
    """What views want enqueued."""
    follow_ups: list = []
    from search.batches import actions

    monkeypatch.setattr(actions, "send", follow_ups.extend)
    return follow_ups


def text_of(path: str, role: str = "viewer") -> str:
    return client_of(role).get(path).content.decode()


def test_an_empty_list_explains_what_an_adapt_run_does():
    html = text_of("/adapt/")
    assert "No adapt run yet" in html and "runs without memory" in html and 'href="/adapt/" aria-current="page"' in html


def test_an_operator_starts_one_and_a_second_submit_is_the_same(sent):
    make_device(), make_samples()
    operator = client_of("operator")
    assert "dialect=mixed" in operator.get("/adapt/new").content.decode()
    answer = operator.post("/adapt/new", FORM | {"device_s": "600"})
    adapt = AdaptRun.objects.get()
    assert answer["Location"] == f"/adapt/{adapt.pk}/"
    assert (adapt.tasks, adapt.limits, adapt.memory["learns"]) == (2, {"device_s": 600.0}, True)
    assert {follow_up.task for follow_up in sent} == {"compose_task"}
    operator.post("/adapt/new", FORM)
    assert AdaptRun.objects.count() == 1


@pytest.mark.parametrize(("tasks", "title"), [("1", "1 task on interpreter"), ("2", "2 tasks on interpreter")])
def test_one_without_a_title_is_named_after_its_tasks(tasks, title):
    make_device(), make_samples()
    client_of("operator").post("/adapt/new", FORM | {"tasks": tasks})
    assert AdaptRun.objects.get().title == title


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"tasks": "x"}, 422, "Enter a whole number"),
        ({"control_steps": "9"}, 409, "Steps without memory must be"),
        ({"device_s": "5"}, 409, "below what is held"),
        ({"device_s": "much"}, 409, "must be a number"),
        ({"usd": "1"}, 422, "costs no money"),
        ({"composer": "model"}, 422, "Select a valid choice"),
    ],
)
def test_what_cannot_start_says_what_to_change(changes, status, said):
    make_device(), make_samples()
    answer = client_of("operator").post("/adapt/new", FORM | changes)
    assert answer.status_code == status and said in answer.content.decode()
    assert not AdaptRun.objects.exists()


def test_the_page_shows_counts_tasks_and_an_effect_with_its_interval():
    bench = AdmittingBench()
    bench.refuse = ("task2",)
    adapt = AdaptWorker(bench).complete(make_adapt())
    html = text_of(f"/adapt/{adapt.pk}/")
    assert "3 composed → 2 admitted → 2 attempted; refused: 1 problem.crashed" in html
    assert "no effect shown" in html and "points [" in html and "forward() fails." in html
    assert 'class="adapt-band band-shown"' in html and "hx-trigger" not in html.split('id="adapt-progress"')[1][:200]
    assert "dialect=mixed" in html


def test_the_page_leads_to_those_of_its_rules_that_wait_for_a_review():
    adapt = AdaptWorker().complete(make_adapt(tasks=1))
    assert "in the review queue" not in text_of(f"/adapt/{adapt.pk}/")
    _, run, _ = searches(adapt)[0]
    rule("Do not use tl.other.", seen=1)
    mine, decided = rule("Do not use tl.any."), rule("Do not use tl.all.")
    for row, failure in zip((mine, decided), failures(2), strict=True):
        Failure.objects.filter(pk=failure.pk).update(run=run)
        Sighting.objects.create(rule=row, failure=failure)
    rule_approve(**card(decided))
    client = client_of("reviewer")
    html = client.get(f"/adapt/{adapt.pk}/").content.decode()
    assert f'<a class="button" href="/rules/?adapt={adapt.pk}">Open 1 rule in the review queue</a>' in html
    assert "Send to review" not in html
    queue = client.get(f"/rules/?adapt={adapt.pk}").content.decode()
    assert "tl.any" in queue and "tl.all" not in queue and "tl.other" not in queue
    batch = client.get(f"/rules/bulk?adapt={adapt.pk}&act=approve").content.decode()
    assert f'<input type="hidden" name="adapt" value="{adapt.pk}">' in batch and "1 rule to approve" in batch


def test_a_search_leads_to_its_adapt_run():
    adapt = AdaptWorker().complete(make_adapt(tasks=1))
    _, run, control = searches(adapt)[0]
    link = f'<a href="/adapt/{adapt.pk}/">adapt run {adapt.pk}</a>'
    assert f"{link}, with memory" in text_of(f"/s/{run.pk}/")
    html = client_of("viewer", "other").get(f"/s/{control.pk}/").content.decode()
    assert f"{link}, without memory" in html


def test_a_running_page_asks_again_and_gets_the_progress_only():
    adapt = make_adapt()
    client = client_of("viewer")
    assert 'hx-trigger="every 5s"' in client.get(f"/adapt/{adapt.pk}/").content.decode()
    fragment = client.get(f"/adapt/{adapt.pk}/", headers={"HX-Request": "true"}).content.decode()
    assert fragment.strip().startswith('<div id="adapt-progress"') and "<html" not in fragment
    assert "nothing to compare yet" in fragment


def test_the_data_come_as_csv_and_json():
    adapt = AdaptWorker().complete(make_adapt())
    client = client_of("viewer")
    rows = list(csv.DictReader(io.StringIO(client.get(f"/adapt/{adapt.pk}/adapt.csv").content.decode())))
    assert (rows[0]["place"], rows[0]["first_with"], rows[0]["attempts_without"]) == ("1", "1", "p")
    document = client.get(f"/adapt/{adapt.pk}/adapt.json").json()
    assert (
        document["effect"]["first"]["low"] < 0 < document["effect"]["first"]["high"] and len(document["entries"]) == 2
    )
    assert client.get(f"/adapt/{adapt.pk}/adapt.xml").status_code == 404


def test_a_transfer_is_started_over_real_problems_and_linked(sent):
    adapt = AdaptWorker().complete(make_adapt(tasks=1))
    assert "no imported or uploaded problem" in text_of(f"/adapt/{adapt.pk}/")
    make_problem("real")
    operator = client_of("operator")
    html = operator.get(f"/adapt/{adapt.pk}/").content.decode()
    assert 'name="problem" value="real" checked' in html and 'value="synthetic' not in html
    answer = operator.post(f"/adapt/{adapt.pk}/transfer", {"problem": ["real"], "steps": "2", "key": "t"})
    moved = adapt.transfers.get()
    assert answer["Location"] == f"/adapt/{moved.pk}/"
    assert "transfer of <a" in operator.get(f"/adapt/{moved.pk}/").content.decode()
    for problems, steps in ([], "2"), (["gone"], "2"), (["real"], "many"):
        answer = operator.post(f"/adapt/{adapt.pk}/transfer", {"problem": problems, "steps": steps})
        assert answer.status_code == 422
    again = operator.post(f"/adapt/{adapt.pk}/transfer", {"problem": ["real"], "steps": "2", "key": "t"})
    assert again["Location"] == f"/adapt/{moved.pk}/" and adapt.transfers.count() == 1


def test_composed_problems_and_their_searches_drown_no_list():
    AdaptWorker().complete(make_adapt())
    mine = make_problem("mine")
    from tests.search.makers import make_run

    make_run(problem=mine)
    client = client_of("operator")
    problems, searches_page = client.get("/problems/").content.decode(), client.get("/").content.decode()
    assert "Task 1" not in problems and "2 composed by adapt runs" in problems
    assert "Task 1" in client.get("/problems/?origin=synthetic").content.decode()
    assert "Adapt 1 task" not in searches_page and "Of adapt runs" in searches_page and "mine" in searches_page
    assert "task 1" in client.get("/?state=adapt").content.decode()
    assert "Task 1" not in client.get("/campaigns/new").content.decode()
    assert Problem.objects.filter(origin="synthetic").count() == 2
