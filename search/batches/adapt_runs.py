"""Start, pause, resume and stop adapt runs. Each act leaves an audit row; a key makes a repeated submit one act."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from adaexplore_site.core.text import clip
from judge.devices.models import Device
from judge.problems.models import Problem
from memory.adapt.models import AdaptRun, AdaptTask
from memory.prompting.choices import MemoryChoice
from search.algorithm.params import SearchParams
from search.batches.adapt_seeds import check_composer
from search.batches.adapt_spending import limits_of_adapt
from search.batches.campaigns import MAX_AT_ONCE, check_proposer
from search.batches.many_runs import runs_hops, runs_pause, runs_resume, runs_stop
from search.records.models import Run
from search.records.queue import FollowUp
from search.runs.services import MAX_CONCURRENCY, MAX_STEPS

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser
    from django.db.models import QuerySet

MAX_TASKS = 2000
CONTROL_STEPS = 5  # see docs/adr/0027-adapt-runs.md
DIALECT = {"dialect": "mixed"}  # the built-in proposer makes no mistakes otherwise: there would be nothing to learn
TRANSFER = "transfer"


@dataclass(frozen=True)
class AdaptPlan:
    """What an adapt run is started with. `limits` are of the whole run: tokens, usd, device_s, wall_s.

    `options` None: those that suit the proposer.
    """

    device: Device
    proposer: str = "builtin"
    tasks: int = 200
    steps: int = 25
    control_steps: int | None = None
    seed: int | None = None
    composer: str = "builtin"
    at_once: int = 1
    concurrency: int = 1
    title: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)
    memory: MemoryChoice = field(default_factory=lambda: MemoryChoice(uses=True, learns=True, trust="auto"))


def adapt_start(*, plan: AdaptPlan, user: AbstractBaseUser | None = None, key: str | None = None) -> AdaptRun:
    """Create an adapt run. The caller then advances it; nothing runs before that.

    The same `key` gives the first one again. Raises ActionRefused with what to change.
    """
    check_composer(plan.composer)
    return _create(plan, (), None, user, key)


def transfer_start(
    *,
    learned_by: AdaptRun,
    problems: Sequence[Problem],
    plan: AdaptPlan,
    user: AbstractBaseUser | None = None,
    key: str | None = None,
) -> AdaptRun:
    """Search given problems with and without the rules that `learned_by` has learned; nothing is learned meanwhile.

    Raises ActionRefused with what to change.
    """
    unique = list({problem.pk: problem for problem in problems}.values())
    if not unique:
        raise ActionRefused("No problem is chosen. Import or upload some: manage.py import_problems PATH.")
    if any(problem.origin == Problem.Origin.SYNTHETIC for problem in unique):
        raise ActionRefused("A transfer is to problems that nobody composed. Leave the synthetic ones out.")
    if learned_by.transfer_of_id is not None:
        raise ActionRefused("A transfer learns nothing itself. Choose the adapt run that it took its rules from.")
    memory = dataclasses.replace(plan.memory, uses=True, learns=False)
    changed = dataclasses.replace(plan, tasks=len(unique), composer=TRANSFER, memory=memory)
    return _create(changed, unique, learned_by, user, key)


def _create(
    plan: AdaptPlan,
    problems: Sequence[Problem],
    learned_by: AdaptRun | None,
    user: AbstractBaseUser | None,
    key: str | None,
) -> AdaptRun:
    action = action_done(key=key, verb="adapt.start")
    if action is not None:
        return AdaptRun.objects.get(pk=action.object_id)
    params = _checked(plan)
    default = DIALECT if plan.proposer == "builtin" else {}
    options = dict(default if plan.options is None else plan.options)
    limits = limits_of_adapt(plan.limits, device=plan.device, proposer=plan.proposer, options=options)
    control = min(CONTROL_STEPS, plan.steps) if plan.control_steps is None else plan.control_steps
    words = f"transfer of adapt run {learned_by.pk}" if learned_by else f"{plan.tasks} tasks"
    try:
        with transaction.atomic():
            adapt = AdaptRun.objects.create(
                title=clip(plan.title, 160) or f"{words[:1].upper()}{words[1:]} on {plan.device.name}",
                device=plan.device,
                proposer=plan.proposer,
                proposer_options=options,
                composer=plan.composer,
                seed=secrets.randbelow(1 << 31) if plan.seed is None else plan.seed,
                tasks=plan.tasks,
                steps=plan.steps,
                control_steps=control,
                at_once=plan.at_once,
                concurrency=plan.concurrency,
                params=params.to_json(),
                memory=plan.memory.to_json(),
                limits=limits,
                transfer_of=learned_by,
                owner=user,  # type: ignore[misc]
            )
            AdaptTask.objects.bulk_create(
                AdaptTask(adapt=adapt, problem=problem, place=place, recipe={"transfer": learned_by.pk})
                for place, problem in enumerate(problems, start=1)
                if learned_by is not None
            )
            after = {"tasks": plan.tasks, "steps": plan.steps, "proposer": plan.proposer, "device": plan.device.name}
            action_on(verb="adapt.start", on=("adapt", adapt.pk), user=user, key=key, after=after)
    except IntegrityError:  # two submits of one form at once: the first one won
        action = action_done(key=key, verb="adapt.start")
        if action is None:
            raise
        return AdaptRun.objects.get(pk=action.object_id)
    return adapt


def _checked(plan: AdaptPlan) -> SearchParams:
    """The parameters of every search. Raises ActionRefused with the first thing that stands against starting."""
    for name, value, least, most in (
        ("Tasks", plan.tasks, 1, MAX_TASKS),
        ("Steps of each task", plan.steps, 1, MAX_STEPS),
        ("Steps without memory", plan.control_steps or 0, 0, plan.steps),
        ("Tasks at once", plan.at_once, 1, MAX_AT_ONCE),
        ("Steps in flight", plan.concurrency, 1, MAX_CONCURRENCY),
    ):
        if not least <= value <= most:
            raise ActionRefused(f"{name} must be from {least} to {most}, not {value}.")
    if plan.seed is not None and not 0 <= plan.seed < 1 << 63:
        raise ActionRefused(f"The seed must be from 0 to {(1 << 63) - 1}, not {plan.seed}.")
    device = plan.device
    if not device.judges or device.remote or device.state != Device.State.ACTIVE:
        raise ActionRefused(f"Device {device.name} takes no new searches. Choose another device.")
    check_proposer(plan.proposer, plan.options or {})
    try:
        return SearchParams.from_json(plan.params)
    except ValueError as error:
        raise ActionRefused(str(error)) from error


def adapt_pause(*, adapt: AdaptRun, user: AbstractBaseUser | None, key: str | None = None, why: str = "") -> AdaptRun:
    """Start nothing more and pause its running searches; steps in flight end. `why` is shown while it is paused."""
    with transaction.atomic():
        locked = _open(adapt)
        if action_done(key=key, verb="adapt.pause") or locked.state == AdaptRun.State.PAUSED:
            return locked
        paused = runs_pause(runs=adapt_searches(locked), user=user)
        locked.stop_reason = clip(why, 200)
        return _set(locked, AdaptRun.State.PAUSED, "adapt.pause", user, key, {"runs": paused})


def adapt_resume(*, adapt: AdaptRun, user: AbstractBaseUser | None, key: str | None = None) -> AdaptRun:
    """Go on, with the searches that the pause had paused. The caller sends `adapt_hops(adapt)` and advances it."""
    with transaction.atomic():
        locked = _open(adapt)
        if action_done(key=key, verb="adapt.resume") or locked.state == AdaptRun.State.RUNNING:
            return locked
        if locked.device.state == Device.State.QUARANTINED:
            raise ActionRefused(f"Device {locked.device.name} is quarantined. Activate it before you resume.")
        resumed = runs_resume(runs=adapt_searches(locked), paused_by=("adapt", locked.pk), user=user)
        locked.stop_reason = ""
        locked.entries.filter(state=AdaptTask.State.WAITING).update(asked_at=None)  # whoever was asked found it paused
        return _set(locked, AdaptRun.State.RUNNING, "adapt.resume", user, key, {"runs": resumed})


def adapt_stop(*, adapt: AdaptRun, user: AbstractBaseUser | None, key: str | None = None) -> AdaptRun:
    """End it: stop its searches, start no other. What was learned is kept."""
    with transaction.atomic():
        locked = _locked(adapt)
        if action_done(key=key, verb="adapt.stop") or locked.state == AdaptRun.State.STOPPED:
            return locked
        if locked.ended:
            raise ActionRefused(f"This adapt run has already ended ({locked.state}).")
        stopped = runs_stop(runs=adapt_searches(locked), user=user)
        waiting = locked.entries.filter(state=AdaptTask.State.WAITING)
        waiting.update(state=AdaptTask.State.SKIPPED, reason="The adapt run was stopped.")
        locked.ended_at = timezone.now()
        locked.stop_reason = f"Stopped by {user.get_username()}." if user else "Stopped."
        return _set(locked, AdaptRun.State.STOPPED, "adapt.stop", user, key, {"runs": stopped})


def adapt_searches(adapt: AdaptRun) -> QuerySet[Run]:
    """Every search of it, with memory and without."""
    return Run.objects.filter(Q(adapt_task__adapt=adapt) | Q(adapt_control__adapt=adapt))


def adapt_hops(adapt: AdaptRun) -> list[FollowUp]:
    """What to send so that its running searches go on at once."""
    return runs_hops(adapt_searches(adapt))


def adapt_locked(adapt_id: int) -> AdaptRun | None:
    """The adapt run with its row locked until commit, or None when it is gone."""
    return AdaptRun.objects.select_for_update(of=("self",)).select_related("device").filter(pk=adapt_id).first()


def _locked(adapt: AdaptRun) -> AdaptRun:
    locked = adapt_locked(adapt.pk)
    if locked is None:
        raise ActionRefused("This adapt run no longer exists.")
    return locked


def _open(adapt: AdaptRun) -> AdaptRun:
    locked = _locked(adapt)
    if locked.ended:
        raise ActionRefused(f"This adapt run has already ended ({locked.state}).")
    return locked


def _set(
    adapt: AdaptRun,
    state: AdaptRun.State,
    verb: str,
    user: AbstractBaseUser | None,
    key: str | None,
    after: dict[str, Any],
) -> AdaptRun:
    before, adapt.state = adapt.state, state
    adapt.save(update_fields=["state", "stop_reason", "ended_at"])
    now = {"state": state.value} | after
    action_on(verb=verb, on=("adapt", adapt.pk), user=user, key=key, before={"state": before}, after=now)
    return adapt
