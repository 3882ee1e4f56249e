"""Campaigns: fair shares, exactly its searches, one refused problem stops nobody."""

from __future__ import annotations

import pytest

from adaexplore_site.core.audit import ActionRefused
from judge.devices.models import Device
from judge.values import JudgeError
from search.batches.campaigns import CAMPAIGNS, campaign_report, campaign_row, entry_rows
from search.batches.engine import seed_for
from search.batches.models import Campaign, CampaignEntry
from search.records.models import Run
from search.runs.services import run_stop
from tests.search.campaign_rows import AdmittingBench, CampaignWorker, make_campaign, refused, unseen
from tests.search.makers import make_device, make_problem, told

pytestmark = pytest.mark.django_db


def runs(campaign: Campaign) -> list[Run]:
    """Its searches in the order of its problems."""
    return [entry.run for entry in campaign.entries.exclude(run=None).select_related("run__problem").order_by("place")]


def test_every_problem_gets_its_search_and_its_share():
    campaign = CampaignWorker().finish(make_campaign("a", "b", "c", steps=11))
    assert campaign.state == Campaign.State.FINISHED
    assert [(run.problem.slug, len(told(run))) for run in runs(campaign)] == [("a", 4), ("b", 4), ("c", 3)]
    assert all(run.state == Run.State.FINISHED for run in runs(campaign))


def test_no_more_searches_than_allowed_run_at_once():
    campaign = make_campaign(*"abcde", at_once=2)
    follow_ups = CAMPAIGNS.advance(campaign.pk)
    assert [follow_up.task for follow_up in follow_ups] == ["advance", "advance"]
    assert CAMPAIGNS.advance(campaign.pk) == []
    assert Run.objects.count() == 2


def test_what_an_ended_search_leaves_goes_to_those_that_have_not_started():
    campaign = make_campaign("a", "b", "c", steps=30)
    CAMPAIGNS.advance(campaign.pk)
    first = runs(campaign)[0]
    assert first.steps == 10
    run_stop(run=first, user=None)
    campaign = CampaignWorker().finish(campaign)
    assert [len(told(run)) for run in runs(campaign)] == [0, 15, 15]


def test_what_the_last_search_leaves_stays_unspent_and_is_shown():
    campaign = make_campaign("a", steps=6)
    CAMPAIGNS.advance(campaign.pk)
    run_stop(run=runs(campaign)[0], user=None)
    CAMPAIGNS.advance(campaign.pk)
    campaign.refresh_from_db()
    assert (campaign.state, campaign_row(campaign).unheld) == (Campaign.State.FINISHED, 6)


def test_a_problem_refused_at_the_preflight_is_listed_and_its_share_goes_on():
    bench = AdmittingBench()
    bench.refuse = ("b",)
    problems = [unseen(name) for name in "abc"]
    campaign = CampaignWorker(bench).finish(make_campaign(problems=problems, steps=12))
    rows = entry_rows(campaign)
    assert [row.entry.search_state for row in rows] == ["finished", "refused", "finished"]
    assert "forward() fails." in rows[1].entry.reason
    assert sum(len(told(run)) for run in runs(campaign)) == 12
    assert bench.admitted == 3


def test_a_campaign_whose_problems_are_all_refused_ends_at_once():
    campaign = make_campaign(problems=[refused("a"), refused("b")], steps=8)
    assert CAMPAIGNS.advance(campaign.pk) == []
    campaign.refresh_from_db()
    assert campaign.state == Campaign.State.FINISHED and campaign.ended_at is not None
    assert all("forward() fails." in row.entry.reason for row in entry_rows(campaign))
    assert campaign_row(campaign).outcome.startswith("No search was started: every problem was refused")


def test_a_campaign_ends_with_its_last_search_when_the_problems_after_it_are_refused():
    campaign = make_campaign(problems=[make_problem("a"), refused("b")], steps=8)
    worker = CampaignWorker()
    worker.work(CAMPAIGNS.advance(campaign.pk))
    assert CAMPAIGNS.advance(campaign.pk) == []
    campaign.refresh_from_db()
    assert campaign.state == Campaign.State.FINISHED
    assert [row.entry.search_state for row in entry_rows(campaign)] == ["finished", "refused"]
    assert campaign_row(campaign).outcome == "1 of 2 problems had no search. Each lists its reason."


def test_a_judge_that_fails_at_the_preflight_does_not_stop_the_rest():
    class Broken(AdmittingBench):
        def admit(self, problem, **kw):
            if "# a\n" in problem.source:
                raise JudgeError("the child did not start")
            return super().admit(problem, **kw)

    problems = [unseen("a"), unseen("b")]
    campaign = CampaignWorker(Broken()).finish(make_campaign(problems=problems, steps=8))
    rows = entry_rows(campaign)
    assert [row.entry.search_state for row in rows] == ["refused", "finished"]
    assert "could not be run" in rows[0].entry.reason and "did not start" in rows[0].entry.reason


def test_a_device_that_has_no_bench_here_refuses_the_problem():
    def none_here(device: Device) -> None:
        raise JudgeError("it is another machine's")

    campaign = make_campaign(problems=[unseen("a")], steps=4)
    CAMPAIGNS.advance(campaign.pk)
    CAMPAIGNS.admit(entry_rows(campaign)[0].entry.pk, bench_for=none_here)
    assert [row.entry.search_state for row in entry_rows(campaign)] == ["refused"]


def test_seeds_are_the_same_for_all_or_another_for_each_problem():
    same = CampaignWorker().finish(make_campaign("a", "b", seeds="same", seed=7))
    assert [run.seed for run in runs(same)] == [7, 7]
    spread = CampaignWorker().finish(make_campaign("c", "d", seed=7))
    seeds = [run.seed for run in runs(spread)]
    assert seeds == [seed_for(7, "spread", run.problem.source_hash) for run in runs(spread)]
    assert seeds[0] != seeds[1]


def test_a_preflight_is_asked_for_once_and_again_when_nobody_came():
    make_campaign(problems=[unseen("a"), unseen("b"), unseen("c")], steps=12)
    worker = CampaignWorker()
    asked = CAMPAIGNS.advance_all(now=worker.now)
    assert [follow_up.task for follow_up in asked] == ["admit_entry"] * 3
    assert {follow_up.queue for follow_up in asked} == {"device.interpreter"}
    assert worker.beat(5) == []
    assert len(worker.beat(200)) == 3


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"problems": []}, "No problem is chosen"),
        ({"steps": 2}, "3 problems need from 3 to 30000 steps"),
        ({"at_once": 0}, "Searches at once must be from 1"),
        ({"concurrency": 999}, "Steps in flight must be from 1"),
        ({"proposer": "manual"}, "cannot serve many searches"),
        ({"proposer": "recorded"}, "cannot serve many searches"),
        ({"proposer": "nobody"}, "There is no proposer"),
        ({"params": {"w": -1}}, "w must be from 0"),
        ({"seed": -1}, "The seed must be"),
        ({"seeds": "odd"}, "must be one of"),
    ],
)
def test_what_cannot_start_is_told_and_nothing_is_written(changes, said):
    with pytest.raises(ActionRefused, match=said):
        make_campaign(**changes)
    assert not Campaign.objects.exists() and not CampaignEntry.objects.exists()


def test_a_device_that_takes_no_searches_is_told():
    make_device()
    Device.objects.update(state="draining")
    with pytest.raises(ActionRefused, match="takes no new searches"):
        make_campaign()


def test_the_report_of_a_campaign_is_over_its_searches_only():
    campaign = CampaignWorker().finish(make_campaign("a", "b"))
    CampaignWorker().finish(make_campaign("c"))
    block = campaign_report(campaign).blocks[0]
    assert ([line.slug for line in block.lines], block.basis.value) == (["a", "b"], "modelled")
    assert make_problem("c").pk not in [run.problem_id for run in runs(campaign)]
