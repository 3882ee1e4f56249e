"""Whatever dies, and however often a message comes: a campaign ends with exactly its searches and its budget."""

from __future__ import annotations

import pytest

from search.batches import campaigns as advancing
from search.batches.campaigns import CAMPAIGNS
from search.records.models import Run
from tests.search.campaign_rows import AdmittingBench, CampaignWorker, assert_exact, make_campaign, unseen
from tests.search.fakes import Killed

pytestmark = pytest.mark.django_db


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
