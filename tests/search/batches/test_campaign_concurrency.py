"""Real threads on one campaign: whoever comes second finds the work done."""

from __future__ import annotations

import pytest

from search.batches.campaigns import CAMPAIGNS
from search.batches.models import Campaign
from search.records.models import Run
from tests.search.campaign_rows import CampaignWorker, make_campaign
from tests.search.engine.test_concurrency import together
from tests.search.makers import told

pytestmark = pytest.mark.django_db(transaction=True)


def test_four_beats_at_the_same_moment_start_no_search_twice():
    campaign = make_campaign(*"abcde", at_once=2)
    hops = [hop for found in together(4, lambda _: CAMPAIGNS.advance(campaign.pk)) for hop in found]
    assert (len(hops), Run.objects.count()) == (2, 2)


def test_three_workers_finish_a_campaign_with_exactly_its_budget():
    campaign = make_campaign("a", "b", "c", steps=9, at_once=2)

    def work(_: int) -> None:
        worker = CampaignWorker()
        for _ in range(40):
            if Campaign.objects.get(pk=campaign.pk).ended:
                return
            worker.work(worker.beat(0), limit=5000)

    together(3, work)
    campaign.refresh_from_db()
    assert campaign.state == Campaign.State.FINISHED
    assert [len(told(run)) for run in Run.objects.order_by("pk")] == [3, 3, 3]


def test_a_pause_beside_a_beat_leaves_nothing_running():
    campaign = make_campaign(*"abcd", at_once=4)

    def act(k: int) -> None:
        if k:
            CAMPAIGNS.advance(campaign.pk)
        else:
            CAMPAIGNS.pause(campaign, user=None)

    together(3, act)
    assert not Run.objects.filter(state=Run.State.RUNNING).exists()
