"""Carries campaigns on: preflights what comes next, starts searches as others end, closes what is done.

Everything is decided from rows under the campaign's row lock, in one transaction. Whoever dies before the commit has
done nothing, whoever dies after it is followed by the next beat; called twice it does nothing the second time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused
from judge.bench.runner import Bench
from judge.devices.models import Device
from judge.problems.preflight import preflight
from judge.problems.services import problem_admit
from judge.values import JudgeError
from memory.prompting.choices import MemoryChoice
from search.batches.campaigns import campaign_locked
from search.batches.models import Campaign, CampaignEntry
from search.records.follow_ups import Hop
from search.records.models import Run
from search.records.queries import told_counts
from search.runs.services import MAX_STEPS, run_start

ASK_AGAIN_S = 30.0  # a preflight that was asked for and not begun by then is asked for once more
# Preflights asked for beyond the free places: a place that falls free does not wait, and the share of a problem that is
# refused is known while there are others left to take it.
AHEAD = 8


def campaigns_advance(*, now: datetime | None = None) -> list[Hop]:
    """Advance every running campaign that no command is driving."""
    now = now or timezone.now()
    running = Campaign.objects.filter(state=Campaign.State.RUNNING).exclude(driven_until__gt=now)
    hops: list[Hop] = []
    for pk in running.order_by("pk").values_list("pk", flat=True):
        hops += campaign_advance(campaign_id=pk, now=now)
    return hops


def campaign_follow(*, node_id: int, now: datetime | None = None) -> list[Hop]:
    """Advance the campaign whose search has ended with this node, if any."""
    now = now or timezone.now()
    ended = CampaignEntry.objects.filter(
        run__nodes=node_id, run__state__in=Run.ENDED, campaign__state=Campaign.State.RUNNING
    ).exclude(campaign__driven_until__gt=now)
    campaign_id = ended.values_list("campaign", flat=True).first()
    return [] if campaign_id is None else campaign_advance(campaign_id=campaign_id, now=now)


def campaign_advance(*, campaign_id: int, now: datetime | None = None) -> list[Hop]:
    """Fill the free places with searches of the next problems, in order; finish when nothing is left.

    Fair share: a search that starts gets the steps nobody holds, divided by the problems that have not started, rounded
    up. So each gets budget / problems at first. What an ended search left untold, and the share of a refused problem,
    goes to those that have not started yet; what the last ones leave stays unspent.
    """
    now = now or timezone.now()
    with transaction.atomic():
        campaign = campaign_locked(campaign_id)
        if campaign is None or campaign.state != Campaign.State.RUNNING:
            return []
        entries = list(campaign.entries.select_related("problem", "run").defer("problem__source").order_by("place"))
        waiting = [entry for entry in entries if entry.state == CampaignEntry.State.WAITING]
        live = [entry for entry in entries if entry.run is not None and not entry.run.ended]
        hops: list[Hop] = []
        if campaign.device.state == Device.State.ACTIVE:  # else searches in flight end by their own rules
            hops = _fill(campaign, waiting, campaign.at_once - len(live), now)
        if not any(_undone(entry) for entry in entries):  # also when the last ones were refused a moment ago
            campaign.state, campaign.ended_at = Campaign.State.FINISHED, now
            campaign.save(update_fields=["state", "ended_at"])
        return hops


def _undone(entry: CampaignEntry) -> bool:
    """Whether the problem waits or its search is open."""
    return entry.state == CampaignEntry.State.WAITING or (entry.run is not None and not entry.run.ended)


def _fill(campaign: Campaign, waiting: list[CampaignEntry], free: int, now: datetime) -> list[Hop]:
    hops: list[Hop] = []
    asked, left = 0, len(waiting)
    for entry in waiting:
        if free <= 0 and asked >= AHEAD:
            break
        check = preflight(entry.problem, campaign.device, now=now)
        if check.usable and free > 0:
            run = _start(campaign, entry, left)
            left -= 1
            if run is not None:
                free -= 1
                hops.append(Hop("advance", run.pk))
        elif check.state == "refused":
            _close(entry, CampaignEntry.State.REFUSED, check.why_not)
            left -= 1
        elif not check.usable and asked < max(free, 0) + AHEAD:
            asked += 1
            hops += _ask(campaign, entry, now, again=check.stalled)
    return hops


def _ask(campaign: Campaign, entry: CampaignEntry, now: datetime, *, again: bool) -> list[Hop]:
    """Ask the device's worker for the preflight, unless that was done a moment ago."""
    if entry.asked_at is not None and not again and entry.asked_at > now - timedelta(seconds=ASK_AGAIN_S):
        return []
    CampaignEntry.objects.filter(pk=entry.pk).update(asked_at=now)
    return [Hop("admit_entry", entry.pk, queue=campaign.device.queue)]


def _start(campaign: Campaign, entry: CampaignEntry, left: int) -> Run | None:
    """Start the search of one problem. None when that is refused, or when no step is left; the entry says why."""
    share = min(-(-steps_unheld(campaign) // left), MAX_STEPS)
    if share < 1:
        _close(entry, CampaignEntry.State.SKIPPED, "The budget of the campaign was used up.")
        return None
    try:
        run = run_start(
            problem=entry.problem,
            device=campaign.device,
            proposer=campaign.proposer,
            steps=share,
            seed=seed_for(campaign.seed, campaign.seeds, entry.problem.source_hash),
            params=campaign.params,
            options=campaign.proposer_options,
            user=campaign.owner,
            origin=campaign.origin,
            key=f"campaign:{campaign.pk}:{entry.pk}",
            concurrency=campaign.concurrency,
            memory=MemoryChoice.from_json(campaign.memory),
        )
    except ActionRefused as error:
        _close(entry, CampaignEntry.State.REFUSED, str(error))
        return None
    entry.run, entry.state = run, CampaignEntry.State.STARTED
    entry.save(update_fields=["run", "state"])
    return run


def _close(entry: CampaignEntry, state: CampaignEntry.State, reason: str) -> None:
    entry.state, entry.reason = state, reason
    entry.save(update_fields=["state", "reason"])


def steps_unheld(campaign: Campaign) -> int:
    """Steps of the budget that no search holds: an open one holds its own budget, an ended one what it has told."""
    return campaign.steps - sum(steps_held(Run.objects.filter(campaign_entry__campaign=campaign)).values())


def steps_held(runs: Iterable[Run]) -> dict[int, int]:
    """Run id -> steps it holds of a shared budget."""
    found = list(runs)
    told = told_counts(run.pk for run in found)
    return {run.pk: told.get(run.pk, 0) if run.ended else run.steps for run in found}


def seed_for(seed: int, seeds: str, problem_hash: str) -> int:
    """The seed of one search: the campaign's own, or one made from it and the problem's text. No order matters."""
    if seeds == Campaign.Seeds.SAME:
        return seed
    return int(hashlib.sha256(f"{seed}:{problem_hash}".encode()).hexdigest()[:7], 16)


def entry_admit(
    *,
    entry_id: int,
    bench_for: Callable[[Device], Bench],
    clock: Callable[[], datetime] = timezone.now,
    since: datetime | None = None,
) -> list[Hop]:
    """Preflight a waiting entry's problem on the campaign's device, then go on. A decided one is not run again.

    One that is under way is left to whoever does it, unless it was begun before `since`: by a process that is gone.
    """
    entry = CampaignEntry.objects.select_related("campaign__device", "problem").filter(pk=entry_id).first()
    if entry is None or entry.state != CampaignEntry.State.WAITING or entry.campaign.state != Campaign.State.RUNNING:
        return []
    device = entry.campaign.device
    check = preflight(entry.problem, device, now=clock())
    if not check.decided and (check.state != "running" or check.stalled or check.left_behind(since)):
        try:
            problem_admit(problem=entry.problem, device=device, bench=bench_for(device))
        except JudgeError:
            _give_up(entry, preflight(entry.problem, device, now=clock()).why_not)
    return campaign_advance(campaign_id=entry.campaign_id, now=clock())


def _give_up(entry: CampaignEntry, reason: str) -> None:
    """Close an entry whose preflight the judge could not do, unless somebody was faster."""
    waiting = CampaignEntry.objects.filter(pk=entry.pk, state=CampaignEntry.State.WAITING)
    waiting.update(state=CampaignEntry.State.REFUSED, reason=reason)
