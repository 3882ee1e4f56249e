"""Start, pause, resume and stop runs, set their concurrency. Each action is audited; its key makes it one action."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from adaexplore_site.core.audit import ActionRefused, action_done
from adaexplore_site.core.text import clip
from judge.devices.models import Device
from judge.problems.models import Problem
from judge.problems.preflight import preflight
from memory.adapt.models import AdaptTask
from memory.prompting.choices import OFF, MemoryChoice
from memory.prompting.freezing import EVERYBODYS, Evidence, memory_freeze, memory_inherit
from search.algorithm.params import VERSION, SearchParams
from search.batches.models import CampaignEntry
from search.engine.budgets import adapt_sharing, limits_keep
from search.engine.completion import node_cancel, run_end, run_locked
from search.engine.leases import PERSON, QUEUED, RETRY
from search.ledger.books import limits_checked, stop_of
from search.ledger.limits import MAX_STEPS as MAX_STEPS
from search.proposers import UnknownProposer, available
from search.proposers import get as get_proposer
from search.proposers.builtin.proposer import DIALECTS
from search.records.events import RunPaused, RunResumed, RunStarted, RunStopping
from search.records.kinds import action_record
from search.records.log import event_write
from search.records.models import Node, Run

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


# Actions that change what is tried without a mark on the steps that they change. What pins, forced steps, notes and
# kernels by hand lead to is marked, and leaves its pair out of the comparison.
UNMARKED = {
    "steer.params": "parameters",
    "steer.prune": "open nodes",
    "steer.boost": "boosts",
    "run.concurrency": "steps in flight",
}
MAX_CONCURRENCY = 64
_RESUMABLE = (Run.State.PAUSED, Run.State.STOPPING, Run.State.STOPPED)


def pair_check(*, run: Run, verb: str) -> None:
    """Raise ActionRefused where the action would make two arms differ by more than memory, and no step would say so."""
    what = UNMARKED.get(verb)
    task = AdaptTask.objects.filter(Q(run=run) | Q(control=run), control__isnull=False).first() if what else None
    if task is None or task.run_id is None:
        return
    other = task.control_id if run.pk == task.run_id else task.run_id
    raise ActionRefused(
        _(
            "Adapt run %(adapt_id)s compares this search with search %(other)s: their %(what)s stay "
            "equal, so that only memory makes them differ. Branch a search of its own from a node "
            "instead."
        )
        % {"adapt_id": task.adapt_id, "other": other, "what": what}
    )


def run_start(
    *,
    problem: Problem,
    device: Device,
    proposer: str,
    steps: int,
    seed: int | None = None,
    params: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    user: AbstractBaseUser | None = None,
    origin: str = Run.Origin.WEB,
    key: str | None = None,
    title: str = "",
    concurrency: int = 1,
    limits: Mapping[str, Any] | None = None,
    memory: MemoryChoice = OFF,
    memory_of: int | None = None,
    evidence: Evidence = EVERYBODYS,
) -> Run:
    """Create a run with its root. The caller sends `advance(run.pk)`. `limits` are those of RunLimits beside `steps`.

    `memory` says what it takes from memory and gives to it; the rules in force are frozen with it. `memory_of` names a
    search whose settings and rules are taken over instead; `evidence` whose failures may speak for a rule.

    The same `key` gives the first run again. Raises ActionRefused with what to change when it cannot start.
    """
    action = action_done(key=key, verb="run.start")
    if action is not None:
        return Run.objects.get(pk=action.object_id)
    checked = _checked_params(params)
    _check(problem, device, steps, concurrency)
    if seed is not None and not 0 <= seed < 1 << 63:
        raise ActionRefused(
            _("The seed must be from 0 to %(value)s, not %(seed)s.") % {"value": (1 << 63) - 1, "seed": seed}
        )
    proposer_check(proposer, options or {})
    bounds = limits_checked(
        problem=problem, device=device, proposer=proposer, options=options or {}, steps=steps, limits=limits or {}
    )
    try:
        with transaction.atomic():
            run = Run.objects.create(
                problem=problem,
                device=device,
                title=clip(title, 160),
                proposer=proposer,
                proposer_options=dict(options or {}),
                params=checked.to_json(),
                seed=secrets.randbelow(1 << 31) if seed is None else seed,
                steps=steps,
                concurrency=concurrency,
                origin=origin,
                owner=user,  # type: ignore[misc]
            )
            limits_keep(run, bounds)
            run.save(update_fields=["limits", "deadline_at"])
            root_create(run=run)
            _memory(run, memory, memory_of, evidence)
            started = RunStarted(
                steps=steps,
                proposer=proposer,
                device=device.name,
                seed=run.seed,
                limits=run.limits,
                concurrency=concurrency,
            )
            event_write(run=run, event=started, actor=user)
            action_record(verb="run.start", run=run, user=user, key=key, after={"steps": steps, "proposer": proposer})
    except IntegrityError:  # two submits of one form at once: the first one won
        action = action_done(key=key, verb="run.start")
        if action is None:
            raise
        return Run.objects.get(pk=action.object_id)
    return run


def _memory(run: Run, choice: MemoryChoice, source: int | None, evidence: Evidence) -> None:
    place: dict[str, Any] = {"problem": run.problem, "device": run.device}
    if source is None or memory_inherit(run_id=run.pk, source_run_id=source, **place) is None:
        memory_freeze(run_id=run.pk, choice=choice, evidence=evidence, **place)


def root_create(*, run: Run) -> Node:
    """The empty candidate, completed at birth. It counts in no budget and is never visited itself."""
    return Node.objects.create(
        run=run, number=0, kind=Node.Kind.ROOT, state=Node.State.COMPLETED, told_order=0, told_at=timezone.now()
    )


def run_pause(*, run: Run, user: AbstractBaseUser | None, key: str | None = None, why: str = "") -> Run:
    """Start no new steps; those in flight end. A paused run stays as it is. `why` is shown while it is paused."""
    with transaction.atomic():
        locked = run_open(run)
        if action_done(key=key, verb="run.pause") or locked.state == Run.State.PAUSED:
            return locked
        if locked.state != Run.State.RUNNING:
            raise ActionRefused(
                _("Only a running search can be paused; this one is %(state)s.") % {"state": locked.state}
            )
        locked.stop_reason = clip(why, 200)
        return _set_state(locked, Run.State.PAUSED, "run.pause", RunPaused, user, key)


def run_resume(*, run: Run, user: AbstractBaseUser | None, key: str | None = None) -> Run:
    """Go on with a paused or stopped run; steps that a stop withdrew stay withdrawn. The caller sends `advance`."""
    with transaction.atomic():
        locked = run_held(run)
        if action_done(key=key, verb="run.resume") or locked.state == Run.State.RUNNING:
            return locked
        if locked.state not in _RESUMABLE:
            raise ActionRefused(_("This search has already ended (%(state)s).") % {"state": locked.state})
        if locked.device.state == Device.State.QUARANTINED:
            raise ActionRefused(
                _("Device %(name)s is quarantined. Activate it before you resume.") % {"name": locked.device.name}
            )
        if locked.state != Run.State.PAUSED:
            _reopen(locked)
        locked.stop_reason = ""
        return _set_state(locked, Run.State.RUNNING, "run.resume", RunResumed, user, key)


def _reopen(run: Run) -> None:
    """Take a stop back. Raises ActionRefused when there is nothing to go on with."""
    if run.origin == Run.Origin.IMPORT:
        raise ActionRefused(
            _("An imported search cannot continue here. Branch a search of its own from a node instead.")
        )
    if CampaignEntry.objects.filter(run=run).exists():
        raise ActionRefused(_("The campaign has reassigned the steps of this search. Branch from a node instead."))
    if (adapt := adapt_sharing(run)) is not None:
        raise ActionRefused(
            _("Adapt run %(number)s has reassigned the limits of this search. Branch from a node.")
            % {"number": adapt.pk}
        )
    stop = stop_of(run, timezone.now())
    if stop is not None:
        raise ActionRefused(
            _("This search cannot continue. %(text)s Add to its limits, or branch from a node.") % {"text": stop.text}
        )
    run.ended_at = None


def run_stop(*, run: Run, user: AbstractBaseUser | None, key: str | None = None, drain: bool = True) -> Run:
    """End the run, keep its tree. Proposals are withdrawn; with `drain` a kernel on the device is judged to its end.

    A run that drains ends at once when it is stopped again without `drain`.
    """
    verb = "run.stop" if drain else "run.kill"
    with transaction.atomic():
        locked = run_held(run)
        if action_done(key=key, verb=verb) or locked.state == Run.State.STOPPED:
            return locked
        if drain and locked.state == Run.State.STOPPING:
            return locked
        if locked.ended:
            raise ActionRefused(_("This search has already ended (%(state)s).") % {"state": locked.state})
        locked.stop_reason = f"Stopped by {user.get_username()}." if user else "Stopped."
        _set_state(locked, Run.State.STOPPING, verb, RunStopping, user, key)
        for node in Node.objects.filter(run=locked, state__in=Node.IN_FLIGHT).order_by("number"):
            on_device = node.state == Node.State.JUDGING and node.lease_owner not in (QUEUED, RETRY, PERSON)
            if not (drain and on_device):
                node_cancel(run=locked, node=node, why="The search was stopped.")
        if not Node.objects.filter(run=locked, state__in=Node.IN_FLIGHT).exists():
            run_end(run=locked, state=Run.State.STOPPED, reason=locked.stop_reason, now=timezone.now())
        return locked


def run_held(run: Run) -> Run:
    """The run with its row locked until commit. Raises ActionRefused when it is gone."""
    locked = run_locked(run.pk)
    if locked is None:
        raise ActionRefused(_("This search no longer exists."))
    return locked


def run_open(run: Run) -> Run:
    """The same, refused when it has ended."""
    locked = run_held(run)
    if locked.ended:
        raise ActionRefused(_("This search has already ended (%(state)s).") % {"state": locked.state})
    return locked


def _set_state(
    run: Run,
    state: Run.State,
    verb: str,
    event: type[RunPaused | RunResumed | RunStopping],
    user: AbstractBaseUser | None,
    key: str | None,
) -> Run:
    before, run.state = run.state, state
    run.save(update_fields=["state", "stop_reason", "ended_at"])
    event_write(run=run, event=event(by=user.get_username() if user else ""), actor=user)
    action_record(verb=verb, run=run, user=user, key=key, before={"state": before}, after={"state": state.value})
    return run


def _checked_params(params: Mapping[str, Any] | None) -> SearchParams:
    """A new run decides as this version does, whichever run its parameters come from."""
    try:
        return replace(SearchParams.from_json(params or {}), version=VERSION)
    except ValueError as error:
        raise ActionRefused(str(error)) from error


def _check(problem: Problem, device: Device, steps: int, concurrency: int) -> None:
    """Raise ActionRefused with the first thing that stands against starting."""
    if not 1 <= steps <= MAX_STEPS:
        raise ActionRefused(
            _("The budget must be from 1 to %(max_steps)s steps, not %(steps)s.")
            % {"max_steps": MAX_STEPS, "steps": steps}
        )
    if not 1 <= concurrency <= MAX_CONCURRENCY:
        raise ActionRefused(
            _("Steps in flight must be from 1 to %(max_concurrency)s, not %(concurrency)s.")
            % {"max_concurrency": MAX_CONCURRENCY, "concurrency": concurrency}
        )
    if not device.takes_searches:
        raise ActionRefused(_("Device %(name)s takes no new searches. Choose another device.") % {"name": device.name})
    check = preflight(problem, device, now=timezone.now())
    if not check.usable:
        yet = f"{problem.title} has not passed the preflight on {device.name} yet. Run the preflight first."
        raise ActionRefused(check.why_not or yet)


def dialect_check(proposer: str, options: Mapping[str, Any]) -> None:
    """Raise ActionRefused unless the option `dialect`, if given, is one of the built-in proposer's."""
    dialect = options.get("dialect", DIALECTS[0])
    if dialect not in DIALECTS or ("dialect" in options and proposer != "builtin"):
        known = " or ".join(DIALECTS)
        raise ActionRefused(
            _("The option dialect is for the proposer builtin alone: %(known)s, not %(dialect)r.")
            % {"known": known, "dialect": dialect}
        )


def proposer_check(name: str, options: Mapping[str, Any]) -> None:
    """Raise ActionRefused when the proposer is unknown or cannot work yet, with what to do."""
    try:
        get_proposer(name)
    except UnknownProposer as error:
        raise ActionRefused(str(error)) from error
    dialect_check(name, options)
    why_not = next((choice.why_not for choice in available() if choice.name == name), "")
    if why_not and not (name == "recorded" and options.get("replies")):
        raise ActionRefused(why_not)
