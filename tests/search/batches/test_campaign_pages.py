"""The pages of campaigns: start, watch, steer, take the report home."""

from __future__ import annotations

import re

import pytest

from search import tasks
from search.batches.campaigns import CAMPAIGNS
from search.batches.models import Campaign
from search.records.models import Run
from tests.pages import client_of
from tests.search.campaign_rows import CampaignWorker, make_campaign, refused
from tests.search.live_rows import grow, new_best
from tests.search.makers import make_device, make_problem, make_run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def sent(monkeypatch) -> list:
    """What views want enqueued."""
    follow_ups: list = []
    from search.batches import actions

    monkeypatch.setattr(actions, "send", follow_ups.extend)
    monkeypatch.setattr(tasks, "send", follow_ups.extend)
    return follow_ups


FORM = {
    "steps": "6",
    "at_once": "1",
    "concurrency": "1",
    "seeds": "spread",
    "preset": "paper-l2",
    "device": "interpreter",
    "proposer": "builtin",
}


def test_an_operator_starts_a_campaign_over_what_is_ticked(sent):
    make_device(), make_problem("a"), make_problem("b"), make_problem("c")
    operator = client_of("operator")
    html = operator.get("/campaigns/new").content.decode()
    assert html.count('name="problem"') == 3 and 'value="60"' in html
    answer = operator.post("/campaigns/new", FORM | {"problem": ["a", "c"], "key": "k1"})
    campaign = Campaign.objects.get()
    assert answer["Location"] == f"/campaigns/{campaign.pk}/"
    assert [entry.problem.slug for entry in campaign.entries.all()] == ["a", "c"]
    assert [follow_up.task for follow_up in sent] == ["advance"]
    operator.post("/campaigns/new", FORM | {"problem": ["a", "c"], "key": "k1"})
    assert Campaign.objects.count() == 1 and campaign.proposer_options == {}


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"problem": []}, 422, "No problem is chosen"),
        ({"steps": "1"}, 409, "2 problems need"),
        ({"steps": "x"}, 422, "Enter a whole number"),
        ({"problem": ["a", "zz"]}, 422, "no problem &#x27;zz&#x27; any more"),
        ({"device": "cuda:9"}, 422, "Select a valid choice"),
    ],
)
def test_a_campaign_that_cannot_be_is_told_and_keeps_what_was_filled_in(changes, status, said):
    make_device(), make_problem("a"), make_problem("b")
    answer = client_of("operator").post("/campaigns/new", FORM | {"problem": ["a", "b"], "title": "mine"} | changes)
    html = answer.content.decode()
    assert answer.status_code == status and said in html and 'value="mine"' in html
    assert not Campaign.objects.exists()


def test_a_refused_campaign_still_offers_what_was_not_ticked():
    make_device(), make_problem("a"), make_problem("b"), make_problem("c")
    address = "/campaigns/new?origin=upload"
    html = client_of("operator").post(address, FORM | {"problem": ["a"], "steps": "0"}).content.decode()
    assert [html.count(f'value="{slug}" checked') for slug in "abc"] == [1, 0, 0] and 'value="c"' in html
    assert f'action="{address}"' in html and '<option value="upload" selected>' in html  # the filter stays as well


def test_the_page_shows_progress_problems_and_report():
    campaign = CampaignWorker().finish(make_campaign("a", "b"))
    html = client_of("viewer").get(f"/campaigns/{campaign.pk}/").content.decode()
    assert "2 of 2 problems done" in html and "8 of 8 steps" in html
    assert "GM(10)" in html and "MODELLED" in html
    assert "Pause" not in html
    fragment = client_of("viewer", "b").get(f"/campaigns/{campaign.pk}/", headers={"HX-Request": "true"})
    assert "<html" not in fragment.content.decode() and "GM(10)" not in fragment.content.decode()
    assert fragment["HX-Refresh"] == "true"  # the page that polled still offers Pause and Stop


def test_the_page_of_a_campaign_that_runs_is_not_loaded_anew():
    address = f"/campaigns/{make_campaign('a', 'b').pk}/"
    assert "HX-Refresh" not in client_of("viewer").get(address, headers={"HX-Request": "true"})


def test_the_report_is_taken_home_as_html_csv_and_json():
    campaign, viewer = CampaignWorker().finish(make_campaign("a")), client_of("viewer")
    for form in ("html", "csv", "json"):
        answer = viewer.get(f"/campaigns/{campaign.pk}/?as={form}")
        assert f'filename="campaign-{campaign.pk}.{form}"' in answer["Content-Disposition"]
        assert "modelled" in answer.content.decode()


def test_the_list_is_there_before_the_first_campaign_and_a_search_leads_to_its_own():
    viewer = client_of("viewer")
    assert "No campaign yet" in viewer.get("/campaigns/").content.decode()
    campaign = make_campaign("a")
    CAMPAIGNS.advance(campaign.pk)
    assert "0/4" in viewer.get("/campaigns/").content.decode()
    assert f"/campaigns/{campaign.pk}/" in viewer.get(f"/s/{Run.objects.get().pk}/").content.decode()


def places(html: str) -> list[str]:
    return re.findall(r'data-label="#">(\d+)<', html)


def sortable() -> Campaign:
    """Four problems: c fastest, a slower with more steps told, b refused, d waiting."""
    campaign = make_campaign("c", "a", "b", "d", steps=16)
    for entry in campaign.entries.filter(place__in=(1, 2)):
        run = make_run(problem=entry.problem, steps=4)
        for k in range(entry.place):
            new_best(grow(run, speedup=4.0 / entry.place - 1 + k))
        entry.run, entry.state = run, "started"
        entry.save()
    campaign.entries.filter(place=3).update(state="refused", reason="It crashes.")
    return campaign


@pytest.mark.parametrize(
    ("sort", "order", "direction"),
    [
        ("", "1234", "ascending"),
        ("-start", "4321", "descending"),
        ("nonsense", "1234", "ascending"),
        ("problem", "2314", "ascending"),
        ("-problem", "4132", "descending"),
        ("state", "1243", "ascending"),
        ("-state", "3412", "descending"),
        ("steps", "2134", "descending"),
        ("-steps", "1234", "ascending"),
        ("speedup", "1234", "descending"),
        ("-speedup", "2134", "ascending"),
    ],
)
def test_the_table_is_sorted_by_a_link_equal_rows_by_start_and_unknown_ones_last(sort, order, direction):
    campaign, viewer = sortable(), client_of("viewer")
    address = f"/campaigns/{campaign.pk}/" + (f"?sort={sort}" if sort else "")
    html = viewer.get(address).content.decode()
    assert "".join(places(html)) == order
    assert html.count("aria-sort=") == 1 and f'aria-sort="{direction}"' in html
    part = viewer.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "".join(places(part)) == order
    if sort.removeprefix("-") in ("problem", "state", "steps", "speedup"):
        assert f'hx-get="/campaigns/{campaign.pk}/?sort={sort}"' in part
        turned = sort[1:] if sort.startswith("-") else f"-{sort}"
        assert f'href="/campaigns/{campaign.pk}/?sort={turned}" aria-current="true"' in part


def test_a_campaign_without_a_search_says_why_on_its_page_and_in_the_bell():
    campaign = make_campaign(problems=[refused("a")], steps=4)
    CAMPAIGNS.advance(campaign.pk)
    viewer = client_of("viewer")
    html = viewer.get(f"/campaigns/{campaign.pk}/").content.decode()
    assert "No search was started: every problem was refused or skipped." in html and "forward() fails." in html
    assert 'hx-trigger="every 5s"' not in html
    assert "No search was started" in viewer.get("/notifications/").content.decode()
