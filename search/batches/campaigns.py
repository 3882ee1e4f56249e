"""Start, pause, resume and stop campaigns. Each act leaves an audit row; a key makes a repeated submit one act."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from adaexplore_site.core.text import clip
from judge.devices.models import Device
from judge.problems.models import Problem
from memory.prompting.choices import MemoryChoice
from search.algorithm.params import SearchParams
from search.batches.many_runs import runs_hops, runs_pause, runs_resume, runs_stop
from search.batches.models import Campaign, CampaignEntry
from search.proposers import available
from search.records.models import Run
from search.records.queue import FollowUp
from search.runs.services import MAX_CONCURRENCY, MAX_STEPS, dialect_check

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser
    from django.db.models import QuerySet

MAX_PROBLEMS = 1000
MAX_AT_ONCE = 64
BY_HAND = ("manual", "recorded")  # one needs a person at every step, the other a recording per problem


def campaign_start(
    *,
    problems: Sequence[Problem],
    device: Device,
    proposer: str,
    steps: int,
    title: str = "",
    seed: int | None = None,
    seeds: str = Campaign.Seeds.SPREAD,
    params: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    at_once: int = 1,
    concurrency: int = 1,
    memory: MemoryChoice | None = None,
    user: AbstractBaseUser | None = None,
    origin: str = Run.Origin.WEB,
    key: str | None = None,
) -> Campaign:
    """Create a campaign over these problems, in this order. The caller then advances it; nothing runs before that.

    `steps` is shared: see `campaign_advance` for who gets how many. Each search freezes the rules in force at its own
    start. The same `key` gives the first campaign again.
    Raises ActionRefused with what to change.
    """
    action = action_done(key=key, verb="campaign.start")
    if action is not None:
        return Campaign.objects.get(pk=action.object_id)
    unique = list({problem.pk: problem for problem in problems}.values())
    checked = _checked(unique, device, proposer, steps, at_once, concurrency, seed, seeds, params, options or {})
    try:
        with transaction.atomic():
            campaign = Campaign.objects.create(
                title=clip(title, 160) or f"{len(unique)} problem{'s' * (len(unique) != 1)} on {device.name}",
                device=device,
                proposer=proposer,
                proposer_options=dict(options or {}),
                params=checked.to_json(),
                seed=secrets.randbelow(1 << 31) if seed is None else seed,
                seeds=seeds,
                steps=steps,
                at_once=at_once,
                concurrency=concurrency,
                memory=(memory or MemoryChoice()).to_json(),
                origin=origin,
                owner=user,  # type: ignore[misc]
            )
            CampaignEntry.objects.bulk_create(
                CampaignEntry(campaign=campaign, problem=problem, place=place)
                for place, problem in enumerate(unique, start=1)
            )
            after = {"steps": steps, "problems": len(unique), "proposer": proposer, "device": device.name}
            action_on(verb="campaign.start", on=("campaign", campaign.pk), user=user, key=key, after=after)
    except IntegrityError:  # two submits of one form at once: the first one won
        action = action_done(key=key, verb="campaign.start")
        if action is None:
            raise
        return Campaign.objects.get(pk=action.object_id)
    return campaign


def _checked(
    problems: list[Problem],
    device: Device,
    proposer: str,
    steps: int,
    at_once: int,
    concurrency: int,
    seed: int | None,
    seeds: str,
    params: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> SearchParams:
    """The parameters. Raises ActionRefused with the first thing that stands against starting."""
    if not problems:
        raise ActionRefused("No problem is chosen. Choose at least one, or change the filter.")
    if len(problems) > MAX_PROBLEMS:
        raise ActionRefused(f"A campaign takes up to {MAX_PROBLEMS} problems; these are {len(problems)}.")
    if not len(problems) <= steps <= MAX_STEPS * len(problems):
        most = MAX_STEPS * len(problems)
        raise ActionRefused(
            f"{len(problems)} problems need from {len(problems)} to {most} steps together, not {steps}."
        )
    for name, value, most in (
        ("Searches at once", at_once, MAX_AT_ONCE),
        ("Steps in flight", concurrency, MAX_CONCURRENCY),
    ):
        if not 1 <= value <= most:
            raise ActionRefused(f"{name} must be from 1 to {most}, not {value}.")
    if seeds not in Campaign.Seeds.values:
        raise ActionRefused(f"The seeds must be one of {', '.join(Campaign.Seeds.values)}, not {seeds}.")
    if seed is not None and not 0 <= seed < 1 << 63:
        raise ActionRefused(f"The seed must be from 0 to {(1 << 63) - 1}, not {seed}.")
    if not device.judges or device.remote or device.state != Device.State.ACTIVE:
        raise ActionRefused(f"Device {device.name} takes no new searches. Choose another device.")
    check_proposer(proposer, options)
    try:
        return SearchParams.from_json(params or {})
    except ValueError as error:
        raise ActionRefused(str(error)) from error


def check_proposer(name: str, options: Mapping[str, Any]) -> None:
    """Raise ActionRefused for one that cannot work unattended, or not yet, and for options it does not have."""
    dialect_check(name, options)
    choices = {choice.name: choice for choice in available()}
    if name in BY_HAND:
        raise ActionRefused(f"The proposer {name!r} cannot serve many searches at once. Choose builtin or a model.")
    if name not in choices:
        raise ActionRefused(f"There is no proposer {name!r}. Choose one of: {', '.join(choices)}.")
    if choices[name].why_not:
        raise ActionRefused(choices[name].why_not)


def campaign_pause(*, campaign: Campaign, user: AbstractBaseUser | None, key: str | None = None) -> Campaign:
    """Start nothing more and pause its running searches; steps in flight end."""
    with transaction.atomic():
        locked = _open(campaign)
        if action_done(key=key, verb="campaign.pause") or locked.state == Campaign.State.PAUSED:
            return locked
        paused = runs_pause(runs=_runs(locked), user=user)
        return _set(locked, Campaign.State.PAUSED, "campaign.pause", user, key, {"runs": paused})


def campaign_resume(*, campaign: Campaign, user: AbstractBaseUser | None, key: str | None = None) -> Campaign:
    """Go on, with the searches that the pause had paused. The caller sends `campaign_hops(campaign)`.

    A search that was paused for another reason stays paused.
    """
    with transaction.atomic():
        locked = _open(campaign)
        if action_done(key=key, verb="campaign.resume") or locked.state == Campaign.State.RUNNING:
            return locked
        if locked.device.state == Device.State.QUARANTINED:
            raise ActionRefused(f"Device {locked.device.name} is quarantined. Activate it before you resume.")
        resumed = runs_resume(runs=_runs(locked), paused_by=("campaign", locked.pk), user=user)
        return _set(locked, Campaign.State.RUNNING, "campaign.resume", user, key, {"runs": resumed})


def campaign_stop(*, campaign: Campaign, user: AbstractBaseUser | None, key: str | None = None) -> Campaign:
    """End it: stop its searches, start no other. What is judged at this moment is judged to its end."""
    with transaction.atomic():
        locked = _locked(campaign)
        if action_done(key=key, verb="campaign.stop") or locked.state == Campaign.State.STOPPED:
            return locked
        if locked.ended:
            raise ActionRefused(f"This campaign has already ended ({locked.state}).")
        stopped = runs_stop(runs=_runs(locked), user=user)
        locked.entries.filter(state=CampaignEntry.State.WAITING).update(
            state=CampaignEntry.State.SKIPPED, reason="The campaign was stopped."
        )
        locked.ended_at = timezone.now()
        return _set(locked, Campaign.State.STOPPED, "campaign.stop", user, key, {"runs": stopped})


def campaign_locked(campaign_id: int) -> Campaign | None:
    """The campaign with its row locked until commit, or None when it is gone."""
    return Campaign.objects.select_for_update(of=("self",)).select_related("device").filter(pk=campaign_id).first()


def _locked(campaign: Campaign) -> Campaign:
    locked = campaign_locked(campaign.pk)
    if locked is None:
        raise ActionRefused("This campaign no longer exists.")
    return locked


def _open(campaign: Campaign) -> Campaign:
    locked = _locked(campaign)
    if locked.ended:
        raise ActionRefused(f"This campaign has already ended ({locked.state}).")
    return locked


def _set(
    campaign: Campaign,
    state: Campaign.State,
    verb: str,
    user: AbstractBaseUser | None,
    key: str | None,
    after: dict[str, Any],
) -> Campaign:
    before, campaign.state = campaign.state, state
    campaign.save(update_fields=["state", "ended_at"])
    now = {"state": state.value} | after
    action_on(verb=verb, on=("campaign", campaign.pk), user=user, key=key, before={"state": before}, after=now)
    return campaign


def campaign_hops(campaign: Campaign) -> list[FollowUp]:
    """What to send so that its running searches go on at once."""
    return runs_hops(_runs(campaign))


def _runs(campaign: Campaign) -> QuerySet[Run]:
    return Run.objects.filter(campaign_entry__campaign=campaign)
