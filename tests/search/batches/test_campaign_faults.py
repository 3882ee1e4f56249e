"""Whatever dies, and however often a message comes: a campaign ends with exactly its searches and its budget."""

from __future__ import annotations

import random

import pytest

from search.batches import campaigns as advancing
from search.batches.campaigns import CAMPAIGNS
from search.batches.models import Campaign, CampaignEntry
from search.records.models import Run
from tests.search.campaign_rows import AdmittingBench, CampaignWorker, make_campaign, unseen
from tests.search.fakes import Killed
from tests.search.makers import told

pytestmark = pytest.mark.django_db


def assert_exact(campaign: Campaign) -> None:
    """One search per problem that was not refused, and together exactly the budget."""
    campaign.refresh_from_db()
    entries = list(campaign.entries.select_related("run"))
    started = [entry.run for entry in entries if entry.run]
    assert campaign.state == Campaign.State.FINISHED
    assert Run.objects.count() == len(started) == len({run.problem_id for run in started})
    assert sum(len(told(run)) for run in started) == campaign.steps
    assert all(entry.run for entry in entries if entry.state == CampaignEntry.State.STARTED)


@pytest.mark.parametrize("place", ["before the search", "before the entry", "before the commit"])
def test_a_death_while_a_search_starts_leaves_nothing_half_done(place, monkeypatch):
    campaign = make_campaign("a", "b", "c", at_once=2)
    start, close = advancing.run_start, CAMPAIGNS._start
    deaths = iter([True])

    def killed_before(**given):
        if next(deaths, False):
            raise Killed
        return start(**given)

    def killed_after(**given):
        run = start(**given)
        if next(deaths, False):
            raise Killed
        return run

    def killed_late(*given):
        run = close(*given)
        if next(deaths, False):
            raise Killed
        return run

    if place == "before the commit":
        monkeypatch.setattr(CAMPAIGNS, "_start", killed_late)
    else:
        monkeypatch.setattr(advancing, "run_start", killed_before if place == "before the search" else killed_after)
    with pytest.raises(Killed):
        CAMPAIGNS.advance(campaign.pk)
    assert not Run.objects.exists()
    CampaignWorker().finish(campaign)
    assert_exact(campaign)


def test_lost_messages_are_made_good_by_the_next_beat():
    campaign = make_campaign(problems=[unseen(name) for name in "abcd"], steps=18, at_once=2)
    chance, worker = random.Random(4), CampaignWorker()
    for _ in range(400):
        campaign.refresh_from_db()
        if campaign.ended:
            break
        for hop in [hop for hop in worker.beat(60) if chance.random() < 0.6]:
            worker.work(found for found in worker.do(hop) if chance.random() < 0.6)
    assert_exact(campaign)


def test_every_message_twice_changes_nothing():
    campaign = make_campaign(problems=[unseen(name) for name in "abc"], steps=10, at_once=2)
    worker = CampaignWorker()
    for _ in range(60):
        campaign.refresh_from_db()
        if campaign.ended:
            break
        for hop in worker.beat():
            worker.work([*worker.do(hop), *worker.do(hop)])
            CAMPAIGNS.advance_all(now=worker.now)
    assert_exact(campaign)


def test_a_preflight_whose_worker_dies_is_done_again():
    class Dying(AdmittingBench):
        deaths = 1

        def admit(self, problem, **kw):
            if self.deaths:
                self.deaths -= 1
                raise Killed
            return super().admit(problem, **kw)

    campaign = make_campaign(problems=[unseen("a")], steps=3)
    worker = CampaignWorker(Dying())
    with pytest.raises(Killed):
        worker.work(worker.beat())
    assert worker.beat(20) == []  # it may still be running
    worker.work(worker.beat(400))
    worker.finish(campaign)
    assert_exact(campaign)


def test_a_search_deleted_by_hand_does_not_hold_the_campaign_up():
    campaign = make_campaign("a", "b")
    CAMPAIGNS.advance(campaign.pk)
    Run.objects.all().delete()
    CampaignWorker().finish(campaign)
    campaign.refresh_from_db()
    assert campaign.state == Campaign.State.FINISHED
