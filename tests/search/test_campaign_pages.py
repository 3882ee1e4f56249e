"""The pages of campaigns: start, watch, steer, take the report home."""

from __future__ import annotations

import pytest

from search import tasks
from search.models import Campaign, Run
from search.services.campaign_advance import campaign_advance
from tests.pages import client_of
from tests.search.campaign_rows import CampaignWorker, make_campaign
from tests.search.makers import make_device, make_problem

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def sent(monkeypatch) -> list:
    """What views want enqueued."""
    hops: list = []
    from search.views import campaigns

    monkeypatch.setattr(campaigns, "send", hops.extend)
    monkeypatch.setattr(tasks, "send", hops.extend)
    return hops


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
    assert [hop.task for hop in sent] == ["advance"]
    operator.post("/campaigns/new", FORM | {"problem": ["a", "c"], "key": "k1"})
    assert Campaign.objects.count() == 1 and campaign.proposer_options == {}
    operator.post("/campaigns/new", FORM | {"problem": ["a"], "dialect": "mixed"})
    assert Campaign.objects.latest("pk").proposer_options == {"dialect": "mixed"}


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"problem": []}, 409, "No problem is chosen"),
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


def test_the_page_shows_progress_problems_and_report():
    campaign = CampaignWorker().finish(make_campaign("a", "b"))
    html = client_of("viewer").get(f"/campaigns/{campaign.pk}/").content.decode()
    assert "2 of 2 problems done" in html and "8 of 8 steps" in html
    assert "GM(10)" in html and "MODELLED" in html
    assert "Pause" not in html
    fragment = client_of("viewer", "b").get(f"/campaigns/{campaign.pk}/", headers={"HX-Request": "true"})
    assert "<html" not in fragment.content.decode() and "GM(10)" not in fragment.content.decode()


def test_the_report_is_taken_home_as_html_csv_and_json():
    campaign, viewer = CampaignWorker().finish(make_campaign("a")), client_of("viewer")
    for form in ("html", "csv", "json"):
        answer = viewer.get(f"/campaigns/{campaign.pk}/?as={form}")
        assert f'filename="campaign-{campaign.pk}.{form}"' in answer["Content-Disposition"]
        assert "modelled" in answer.content.decode()


def test_pause_resume_and_stop_by_form(sent):
    campaign, operator = make_campaign("a", "b"), client_of("operator")
    campaign_advance(campaign_id=campaign.pk)
    for act, state in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
        answer = operator.post(f"/campaigns/{campaign.pk}/{act}", {"key": act})
        assert answer.status_code == 302
        assert (Campaign.objects.get().state, Run.objects.get().state) == (state, state)
    assert [hop.task for hop in sent] == ["advance"]
    assert operator.post(f"/campaigns/{campaign.pk}/pause").status_code == 409
    assert client_of("viewer").post(f"/campaigns/{campaign.pk}/stop").status_code == 403


def test_the_list_is_there_before_the_first_campaign_and_a_search_leads_to_its_own():
    viewer = client_of("viewer")
    assert "No campaign yet" in viewer.get("/campaigns/").content.decode()
    campaign = make_campaign("a")
    campaign_advance(campaign_id=campaign.pk)
    assert "0/4" in viewer.get("/campaigns/").content.decode()
    assert f"/campaigns/{campaign.pk}/" in viewer.get(f"/s/{Run.objects.get().pk}/").content.decode()
