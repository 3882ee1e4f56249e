"""The home page: first run, rows, filters, pages, the polled fragment, a constant number of queries."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from judge.problems.models import Problem
from search.engine.steps import reply_submit
from search.ledger.models import Spending
from search.proposers import get as get_proposer
from search.records.models import Run, RunEvent
from search.runs import views as page
from search.runs.listing import spark
from search.runs.services import run_pause
from tests.pages import client_of, full_run
from tests.search.engine.test_manual_reply import KERNEL
from tests.search.makers import Worker, make_problem, make_run

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


def state_cell(html: str) -> str:
    """What the first row says of its state."""
    return html.split('data-label="State">')[1].split("</td>")[0]


def test_the_first_visit_offers_a_sample_and_the_drop_zone():
    sample = make_problem()
    Problem.objects.filter(pk=sample.pk).update(origin="sample")
    html = client_of("operator").get("/").content.decode()
    assert "Try sample" in html and f"/new?problem={sample.slug}" in html and 'id="dropzone"' in html


def test_a_viewer_s_first_visit_says_which_role_is_missing():
    make_problem()
    html = client_of("viewer").get("/").content.decode()
    assert 'id="dropzone"' not in html


def test_a_row_shows_state_best_with_basis_counts_and_progress():
    full_run()
    html = client_of("viewer").get("/").content.decode()
    assert "3.0×" in html and "MODELLED" in html
    assert 'max="10" value="3"' in html
    assert '<path d="M' in html and "is-running" in html


def test_the_fragment_is_the_table_alone_and_polls_itself():
    full_run()
    html = client_of("viewer").get("/?state=running", headers=HTMX).content.decode()
    assert html.strip().startswith('<div id="runs"') and 'hx-get="/?state=running"' in html and "<nav" not in html


def test_filters_by_state_and_words():
    make_run(title="alpha")
    other = make_run(title="beta")
    Run.objects.filter(pk=other.pk).update(state="finished")
    client = client_of("viewer")
    assert "alpha" not in client.get("/?state=ended").content.decode()
    html = client.get("/?q=alp").content.decode()
    assert "alpha" in html and ">beta<" not in html
    assert "No search matches" in client.get("/?q=nowhere").content.decode()


def test_a_search_that_waits_for_a_reply_says_so_and_leads_to_the_form():
    worker, run = Worker(), make_run(proposer="manual", steps=2)
    worker.proposer = get_proposer
    worker.run(run)
    state = state_cell(client_of("operator").get("/").content.decode())
    assert "is-waiting" in state and "<span>waiting for a reply</span>" in state and "running" not in state
    assert f'href="/s/{run.pk}/n/1/">Reply to node 1</a>' in state
    assert 'name="text"' in client_of("operator", "another").get(f"/s/{run.pk}/n/1/").content.decode()
    assert "Reply to" not in state_cell(client_of("viewer").get("/").content.decode())
    assert "<span>waiting for a reply</span>" in client_of("viewer", "third").get(f"/s/{run.pk}/").content.decode()
    worker.work(reply_submit(node=run.nodes.get(number=1), text=KERNEL, user=None, key="r1"))
    assert f'href="/s/{run.pk}/n/2/"' in state_cell(client_of("viewer", "fourth").get("/").content.decode())


def test_a_search_that_also_judges_is_running_and_still_asks_for_the_reply():
    worker, run = Worker(), make_run(proposer="manual", steps=3, concurrency=3)
    worker.proposer = get_proposer
    worker.run(run)
    assert run.nodes.filter(lease_owner="person").count() == 3
    reply_submit(
        node=run.nodes.get(number=1), text=KERNEL, user=None, key="r1"
    )  # its follow-up tasks stay in the queue
    state = state_cell(client_of("operator").get("/").content.decode())
    assert "is-running" in state and "Reply to node 2</a> and 1 more" in state


def test_a_paused_search_stays_paused_while_a_reply_is_awaited():
    worker, run = Worker(), make_run(proposer="manual", steps=2)
    worker.proposer = get_proposer
    run_pause(run=worker.run(run), user=None)
    state = state_cell(client_of("operator").get("/").content.decode())
    assert "is-paused" in state and "Reply to node 1" in state


def test_older_searches_are_a_link_away(monkeypatch):
    monkeypatch.setattr(page, "PAGE", 2)
    numbers = [make_run().pk for _ in range(3)]
    client = client_of("viewer")
    assert f"/?before={numbers[1]}" in client.get("/").content.decode()
    html = client.get(f"/?before={numbers[1]}").content.decode()
    assert f'id="run-{numbers[0]}"' in html and f'id="run-{numbers[2]}"' not in html
    assert client.get("/?before=x").status_code == 404


def test_a_search_silent_for_long_says_so():
    run = make_run()
    RunEvent.objects.filter(run=run).update(created_at=timezone.now() - timedelta(minutes=4))
    assert "no event for 4 min" in client_of("viewer").get("/").content.decode()


def test_ten_searches_cost_as_many_queries_as_one():
    client = client_of("viewer")
    counts = []
    for more in (1, 9):
        for _ in range(more):
            full_run()
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert client.get("/").status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_a_spark_line_steps_up_within_its_box():
    line = spark(((1, 0.5), (4, 2.0), (9, 4.0)), last=10)
    assert line is not None and line.path.count("V") == 2
    assert 0 < line.y < line.baseline < 24 and line.x <= 96
    assert spark((), last=3) is None


def test_the_list_is_sorted_and_narrowed_by_device_and_pages_go_on_in_that_order(monkeypatch):
    monkeypatch.setattr(page, "PAGE", 2)
    runs = [make_run(title=title) for title in ("one", "two", "three")]
    client = client_of("viewer")
    html = client.get("/?sort=oldest").content.decode()
    assert html.index(">one<") < html.index(">two<") and ">three<" not in html
    assert f"sort=oldest&amp;before={runs[1].pk}" in html
    assert ">three<" in client.get(f"/?sort=oldest&before={runs[1].pk}").content.decode()
    rows = [client.get(path).content.decode() for path in ("/?sort=problem", f"/?sort=problem&before={runs[1].pk}")]
    assert ">three<" in rows[0] and ">one<" in rows[1] and ">three<" not in rows[1]
    assert "No search matches" in client.get("/?device=nowhere").content.decode()
    assert ">two<" in client.get("/?device=interpreter&sort=nonsense").content.decode()


def test_a_row_says_since_when_it_is_in_its_state_and_what_it_has_cost():
    run = full_run()
    run_pause(run=run, user=None)
    RunEvent.objects.filter(run=run).update(created_at=timezone.now() - timedelta(minutes=4))
    sums = {"calls": 2, "usd": "1.25", "unpriced": 1}
    Spending.objects.create(run=run, day=timezone.now().date(), model="big", kind="large", **sums)
    html = client_of("viewer").get("/").content.decode()
    assert "for 4 min" in html and "at least $1.25 (1 call unpriced)" in html


def test_an_ended_search_is_archived_and_listed_again():
    run, other = full_run(), make_run(title="other")
    operator = client_of("operator")
    refused = operator.post(f"/s/{run.pk}/archive", {"archived": "1"})
    assert refused.status_code == 409 and "Stop it first" in refused.content.decode()
    Run.objects.filter(pk=run.pk).update(state="finished")
    answer = operator.post(f"/s/{run.pk}/archive", {"archived": "1", "back": "/?state=ended"})
    assert answer["Location"] == "/?state=ended"
    assert (
        f'id="run-{run.pk}"' not in operator.get("/").content.decode()
        and f'id="run-{other.pk}"' in operator.get("/").content.decode()
    )
    assert f'id="run-{run.pk}"' in operator.get("/?state=archived").content.decode()
    operator.post(f"/s/{run.pk}/archive", {"archived": ""})
    assert f'id="run-{run.pk}"' in operator.get("/").content.decode()
    assert client_of("viewer").post(f"/s/{run.pk}/archive", {"archived": "1"}).status_code == 403


def test_the_best_kernel_of_each_search_can_be_ticked_for_a_comparison():
    run, bare = full_run(), make_run()
    html = client_of("viewer").get("/").content.decode()
    assert f'form="compare" name="k" value="{run.pk}.2" data-tick="{run.pk}.2"' in html and 'action="/compare"' in html
    assert f'id="pick-{bare.pk}"' not in html
