"""Carries adapt runs on: asks for tasks and their preflights, starts searches in order, closes what is done.

Everything is decided from rows under the adapt run's row lock, in one transaction. Whoever dies before the commit has
done nothing, whoever dies after it is followed by the next beat; called twice it does nothing the second time.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.text import clip
from judge.devices.models import Device
from judge.problems.preflight import Preflight, preflight
from memory.adapt.models import AdaptRun, AdaptTask
from memory.failures.models import Failure
from memory.prompting.choices import OFF, MemoryChoice
from memory.prompting.freezing import Evidence
from search.batches.adapt_runs import adapt_locked, adapt_pause
from search.batches.adapt_spending import WORDS, NoPrice, may_admit, may_write, room_of, share_of
from search.batches.campaign_advance import seed_for
from search.records.models import Run
from search.records.queue import FollowUp
from search.runs.services import proposer_check, run_start

ASK_AGAIN_S = {"builtin": 60.0, "model": 900.0}  # a task that was asked for and has not come by then
ADMIT_AGAIN_S = 30.0
AHEAD = 2  # tasks composed and preflighted beyond the free places: a place that falls free does not wait
MOST_PER_TASK = 3  # compositions for one that is attempted, before the run gives up
SPARE = 10
LEARN_S = 120.0  # so long the next task waits for what the last one's failures teach
_LARGE = ("source", "problem__source", "problem__admission", "problem__description")  # read of a few only
SLOW_MS = 3000.0  # one run of a reference: more would cost every evaluation too much


def adapts_advance(*, now: datetime | None = None) -> list[FollowUp]:
    """Advance every running adapt run that no command is driving."""
    now = now or timezone.now()
    running = AdaptRun.objects.filter(state=AdaptRun.State.RUNNING).exclude(driven_until__gt=now)
    follow_ups: list[FollowUp] = []
    for pk in running.order_by("pk").values_list("pk", flat=True):
        follow_ups += adapt_advance(adapt_id=pk, now=now)
    return follow_ups


def adapt_follow(*, node_id: int, now: datetime | None = None) -> list[FollowUp]:
    """Advance the adapt run one of whose searches has ended with this node, if any."""
    now = now or timezone.now()
    ended = AdaptTask.objects.filter(
        Q(run__nodes=node_id, run__state__in=Run.ENDED) | Q(control__nodes=node_id, control__state__in=Run.ENDED),
        adapt__state=AdaptRun.State.RUNNING,
    ).exclude(adapt__driven_until__gt=now)
    adapt_id = ended.values_list("adapt", flat=True).first()
    return [] if adapt_id is None else adapt_advance(adapt_id=adapt_id, now=now)


def adapt_advance(*, adapt_id: int, now: datetime | None = None, settled: bool = False) -> list[FollowUp]:
    """Start the next tasks in their order, ask for what is missing before them; finish when nothing is left.

    `settled`: the caller has seen to it that all failures have taught; otherwise the next task waits for that a while.
    """
    now = now or timezone.now()
    try:
        return _advance(adapt_id, now, settled)
    except NoPrice as error:  # everything of this beat is taken back: it waits for a person
        with suppress(ActionRefused):
            adapt_pause(adapt=AdaptRun.objects.get(pk=adapt_id), user=None, why=str(error))
        return []


def _advance(adapt_id: int, now: datetime, settled: bool) -> list[FollowUp]:
    with transaction.atomic():
        adapt = adapt_locked(adapt_id)
        if adapt is None or adapt.state != AdaptRun.State.RUNNING:
            return []
        tasks = list(adapt.entries.select_related("problem", "run", "control").defer(*_LARGE).order_by("place"))
        if _over(adapt, tasks, now) or adapt.device.state != Device.State.ACTIVE:
            return []  # searches in flight end by their own rules; no search starts on a device that is not active
        free = adapt.at_once - sum(map(_live, tasks))
        ready = settled or not _unlearned(adapt, now)
        follow_ups = _fill(adapt, tasks, free if ready else 0, now)
        follow_ups += _more(adapt, tasks, max(free, 0), now)
        if not follow_ups:
            _over(adapt, tasks, now)  # the last tasks may have been refused a moment ago
        return follow_ups


def _over(adapt: AdaptRun, tasks: list[AdaptTask], now: datetime) -> bool:
    """Finish the run when no search is open and no task is left, or no limit leaves room for one. True when it has."""
    if any(map(_live, tasks)):
        return False  # what open searches hold of the limits comes back when they end
    spent = _exhausted(adapt, tasks, now)
    if spent:
        _skip(tasks, spent)
    waiting = [task for task in tasks if task.state == AdaptTask.State.WAITING]
    missing = "" if spent else _missing(adapt, tasks, waiting)
    if waiting or missing == "more":
        return False
    _finish(adapt, spent or missing or _none_attempted(tasks), now)
    return True


def _none_attempted(tasks: list[AdaptTask]) -> str:
    """Why a run ends without a search; empty when there was one."""
    if any(task.state == AdaptTask.State.STARTED for task in tasks):
        return ""
    return f"None of {len(tasks)} tasks could be attempted. The reason stands with each."


def _live(task: AdaptTask) -> bool:
    return _open(task.run) or _open(task.control)


def _open(run: Run | None) -> bool:
    return run is not None and not run.ended


def _fill(adapt: AdaptRun, tasks: list[AdaptTask], free: int, now: datetime) -> list[FollowUp]:
    """Decide waiting tasks and start them, none before one that stands before it."""
    follow_ups: list[FollowUp] = []
    in_order = True
    for task in [task for task in tasks if task.state == AdaptTask.State.WAITING]:
        check = preflight(task.problem, adapt.device, now=now) if task.problem is not None else None
        if check is None or not check.decided or (check.usable and "graph" not in task.recipe):
            held = task.asked_at is not None  # asked for before: the budget holds its time
            if check is None or check.decided or held or may_admit(adapt, now):
                follow_ups += _ask(adapt, task, now, again=check is not None and check.stalled)
            in_order = False
            continue
        reason = _refusal(task, check) or (_twin_before(task, tasks) if in_order else "")
        if reason:
            _close(task, AdaptTask.State.REFUSED, reason)
        elif in_order and free > 0 and (started := _start(adapt, task, free, now)):
            free -= 1
            follow_ups += [FollowUp("advance", run.pk) for run in started]
        elif task.state == AdaptTask.State.WAITING:
            in_order = False
    return follow_ups


def _refusal(task: AdaptTask, check: Preflight) -> str:
    """Why a decided problem is no task; empty while it may be one."""
    if check.state in ("refused", "degenerate"):
        said = str(check.report.get("message") or "").strip()
        return f"{check.report.get('reason') or check.state}: {said}"
    if not check.usable:
        return ""
    slow = max((stage["wall_ms"] for stage in check.stages if stage["name"] == "reference"), default=0.0)
    if slow > SLOW_MS:
        return f"problem.slow: one run of the reference takes {slow / 1000:.1f} s; {SLOW_MS / 1000:g} s are the limit."
    return _duplicate(task.recipe["twin"]) if task.recipe.get("twin") else ""


def _twin_before(task: AdaptTask, tasks: list[AdaptTask]) -> str:
    """Whether an earlier task has the same op graph; all before it are decided."""
    signature = task.recipe["graph"]
    before = [one for one in tasks if one.place < task.place and one.state == AdaptTask.State.STARTED]
    twin = next((one for one in before if signature and one.recipe.get("graph") == signature), None)
    return _duplicate(f"task {twin.place}") if twin and "transfer" not in task.recipe else ""


def _duplicate(twin: str) -> str:
    return f"problem.duplicate: {twin} has the same operators in the same wiring."


def _ask(adapt: AdaptRun, task: AdaptTask, now: datetime, *, again: bool = False) -> list[FollowUp]:
    """Ask for a task's text or preflight, unless that was done a moment ago."""
    compose = task.problem is None
    patience = ASK_AGAIN_S.get(adapt.composer, ADMIT_AGAIN_S) if compose else ADMIT_AGAIN_S
    if task.asked_at is not None and not again and task.asked_at > now - timedelta(seconds=patience):
        return []
    AdaptTask.objects.filter(pk=task.pk).update(asked_at=now)
    return [FollowUp("compose_task", task.pk) if compose else FollowUp("admit_task", task.pk, queue=adapt.device.queue)]


def _more(adapt: AdaptRun, tasks: list[AdaptTask], free: int, now: datetime) -> list[FollowUp]:
    """New places while tasks are missing, few wait, and the limits have room to write one."""
    follow_ups: list[FollowUp] = []
    left = sum(task.state == AdaptTask.State.WAITING for task in tasks)
    total, place = len(tasks), max((task.place for task in tasks), default=0)
    while left < free + AHEAD and _missing_at(adapt, tasks, left, total) == "more" and may_write(adapt, now):
        place += 1
        task = AdaptTask.objects.create(adapt=adapt, place=place, asked_at=now)
        follow_ups.append(FollowUp("compose_task", task.pk))
        left, total = left + 1, total + 1
    return follow_ups


def _missing(adapt: AdaptRun, tasks: list[AdaptTask], waiting: list[AdaptTask]) -> str:
    return _missing_at(adapt, tasks, len(waiting), len(tasks))


def _missing_at(adapt: AdaptRun, tasks: list[AdaptTask], left: int, total: int) -> str:
    """The word more when another task is to be composed, else why fewer than wanted are attempted; empty: none is."""
    started = sum(task.state == AdaptTask.State.STARTED for task in tasks)
    if adapt.transfer_of_id is not None or started + left >= adapt.tasks:
        return ""
    if total < MOST_PER_TASK * adapt.tasks + SPARE:
        return "more"
    return f"Of {total} composed tasks {started} could be attempted; more are not tried."


def _start(adapt: AdaptRun, task: AdaptTask, free: int, now: datetime) -> list[Run]:
    """Start both searches of a task, or none: with memory, and without for the comparison.

    None also while open searches hold what is left of the budget, and where the proposer cannot work, which pauses the
    run: the task then waits.
    """
    assert task.problem is not None
    arms = 2 if adapt.control_steps else 1
    share = share_of(adapt, searches=free * arms, now=now) or share_of(adapt, searches=arms, now=now)
    if share is None:
        return []
    given = {
        "problem": task.problem,
        "device": adapt.device,
        "proposer": adapt.proposer,
        "seed": seed_for(adapt.seed, "spread", task.problem.source_hash),
        "params": adapt.params,
        "options": adapt.proposer_options,
        "user": adapt.owner,
        "origin": Run.Origin.ADAPT,
        "concurrency": adapt.concurrency,
        "limits": share,
    }
    name = f"adapt:{adapt.pk}:{task.pk}"
    title = f"Adapt {adapt.pk} task {task.place}"
    try:
        with transaction.atomic():
            memory = MemoryChoice.from_json(adapt.memory)
            held_out = Evidence(not_on=task.problem.pk, learned_by=adapt.transfer_of_id)
            task.run = run_start(steps=adapt.steps, memory=memory, evidence=held_out, key=name, title=title, **given)
            if adapt.control_steps:
                task.control = run_start(
                    steps=adapt.control_steps, memory=OFF, key=f"{name}:control", title=f"{title}, no memory", **given
                )
            task.state = AdaptTask.State.STARTED
            task.save(update_fields=["run", "control", "state"])
    except ActionRefused as error:
        task.run = task.control = None
        if _halted(adapt):
            return []
        _close(task, AdaptTask.State.REFUSED, str(error))
        return []
    return [run for run in (task.run, task.control) if run is not None]


def _halted(adapt: AdaptRun) -> bool:
    """Pause it when its proposer cannot work: every other task would be refused for it, too."""
    try:
        proposer_check(adapt.proposer, adapt.proposer_options)
    except ActionRefused as error:
        adapt_pause(adapt=adapt, user=None, why=f"No search can start: {error}")
        return True
    return False


def _unlearned(adapt: AdaptRun, now: datetime) -> bool:
    """Whether failures of earlier tasks have yet to teach. One that nobody comes for holds nothing up for long."""
    recent = Failure.objects.filter(lesson="", told_at__gt=now - timedelta(seconds=LEARN_S))
    return recent.filter(run__adapt_task__adapt=adapt, run__memory__learns=True).exists()


def _exhausted(adapt: AdaptRun, tasks: list[AdaptTask], now: datetime) -> str:
    """Which limit leaves no room for another task or its preflight; empty while there is some."""
    arms = 2 if adapt.control_steps else 1
    if not adapt.limits:
        return ""
    if share_of(adapt, searches=arms, now=now, writing=False) is not None:
        waiting = [task for task in tasks if task.state == AdaptTask.State.WAITING]
        wanted = waiting or _missing(adapt, tasks, waiting) == "more"
        ready = any(task.asked_at or "graph" in task.recipe for task in waiting)
        if ready or not wanted or may_admit(adapt, now, writing=False):
            return ""
        return f"The limit of {WORDS['device_s']} leaves no room for another preflight."
    least = min(room_of(adapt, now, writing=False).items(), key=lambda item: item[1] / max(_whole(adapt, item[0]), 1))
    return f"The limit of {WORDS[least[0]]} leaves no room for another task."


def _whole(adapt: AdaptRun, name: str) -> int:
    return int(float(adapt.limits[name]))


def _skip(tasks: list[AdaptTask], reason: str) -> None:
    for task in tasks:
        if task.state == AdaptTask.State.WAITING:
            _close(task, AdaptTask.State.SKIPPED, reason)


def _finish(adapt: AdaptRun, reason: str, now: datetime) -> None:
    adapt.state, adapt.ended_at, adapt.stop_reason = AdaptRun.State.FINISHED, now, clip(reason, 200)
    adapt.save(update_fields=["state", "ended_at", "stop_reason"])


def _close(task: AdaptTask, state: AdaptTask.State, reason: str) -> None:
    task.state, task.reason = state, reason
    task.save(update_fields=["state", "reason"])
