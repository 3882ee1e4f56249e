"""Carries a whole campaign on in this process, without queue or workers, as `drive` does with one search."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from judge.bench.runner import Bench
from judge.devices.models import Device
from search.batches.campaign_advance import campaign_advance, entry_admit
from search.batches.models import Campaign, CampaignEntry
from search.engine.driver import drive
from search.proposers.protocol import Proposer
from search.records.models import Run
from search.records.queue import FollowUp

HELD_S = 60.0  # for so long beat leaves the campaign to this process after a sign of life
LOOK_AGAIN_S = 2.0


@dataclass(frozen=True)
class Hands:
    """What the work is done with."""

    proposer_for: Callable[[str], Proposer]
    bench_for: Callable[[Device], Bench]
    sleep: Callable[[float], None]
    admitting: Callable[[CampaignEntry], None]  # told before each preflight
    report: Callable[[Run], None]  # told after every follow-up task of a search


def drive_campaign(*, campaign: Campaign, hands: Hands) -> Campaign:
    """Work until the campaign has ended or is paused, its device is away, or all that is left waits for a person.

    Searches run one after the other here, whatever the campaign allows at once.
    """
    asked: deque[int] = deque()
    begun = timezone.now()
    CampaignEntry.objects.filter(campaign=campaign, state=CampaignEntry.State.WAITING).update(asked_at=None)
    try:
        while True:
            _hold(campaign)
            asked.extend(_preflights(campaign_advance(campaign_id=campaign.pk)))
            campaign.refresh_from_db()
            live = Run.objects.filter(
                campaign_entry__campaign=campaign, state__in=(Run.State.RUNNING, Run.State.STOPPING)
            )
            run = live.select_related("device", "problem").order_by("pk").first()
            if campaign.state != Campaign.State.RUNNING or campaign.device.state != Device.State.ACTIVE:
                return campaign
            if asked:  # first: what a refused problem leaves goes to those that have not started
                asked.extend(_preflights(_admit(campaign, asked.popleft(), hands, begun)))
            elif run is not None:
                _drive_run(campaign, run, hands)
            elif _waits(campaign):
                return campaign
            else:
                hands.sleep(LOOK_AGAIN_S)  # another process does the preflight
    finally:
        Campaign.objects.filter(pk=campaign.pk).update(driven_until=None)


def _waits(campaign: Campaign) -> bool:
    """Whether paused searches are all that is left, or hold every place."""
    paused = Run.objects.filter(campaign_entry__campaign=campaign, state=Run.State.PAUSED).count()
    waiting = campaign.entries.filter(state=CampaignEntry.State.WAITING)
    return paused >= campaign.at_once or not waiting.exists()


def _hold(campaign: Campaign) -> None:
    Campaign.objects.filter(pk=campaign.pk).update(driven_until=timezone.now() + timedelta(seconds=HELD_S))


def _drive_run(campaign: Campaign, run: Run, hands: Hands) -> None:
    def report() -> None:
        _hold(campaign)
        hands.report(run)

    drive(run=run, proposer_for=hands.proposer_for, bench_for=hands.bench_for, sleep=hands.sleep, report=report)


def _preflights(follow_ups: list[FollowUp]) -> list[int]:
    return [follow_up.target for follow_up in follow_ups if follow_up.task == "admit_entry"]


def _admit(campaign: Campaign, entry_id: int, hands: Hands, begun: datetime) -> list[FollowUp]:
    hands.admitting(CampaignEntry.objects.select_related("problem").get(pk=entry_id))
    _hold(campaign)
    return entry_admit(entry_id=entry_id, bench_for=hands.bench_for, since=begun)
