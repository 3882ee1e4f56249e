"""One task of an adapt run on its way to a search: composed, taken in as a problem, preflighted, perhaps refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models.fields.json import KeyTransform
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused
from judge.bench.runner import Bench
from judge.devices.models import Device
from judge.problems.models import Problem
from judge.problems.preflight import preflight
from judge.problems.services import ProblemRejected, problem_admit, problem_upload
from judge.values import JudgeError
from memory.adapt.composer import Composed
from memory.adapt.models import AdaptRun, AdaptTask
from memory.adapt.sameness import graph_signature
from search.batches.adapt_advance import ASK_AGAIN_S, adapt_advance
from search.batches.adapt_runs import adapt_locked, adapt_pause
from search.batches.adapt_writer import NothingComposed, Writer, WriterAway, write_task
from search.engine.spending import task_call_add
from search.records.follow_ups import Hop

AWAY_TRIES = 8  # of one task: over an hour
AWAY_S = 30.0
NO_PREFLIGHT = {"begun": 0, "timed": 0, "s": 0.0}  # how often one was begun and ended for this task, and for how long


def task_compose(
    *, task_id: int, write: Writer = write_task, clock: Callable[[], datetime] = timezone.now, settled: bool = False
) -> list[Hop]:
    """Write a waiting task and take it in as a problem, then go on. One that is written already stays as it is."""
    task = AdaptTask.objects.select_related("adapt").filter(pk=task_id).first()
    if task is None or not _wanted(task) or task.problem_id is not None:
        return []
    adapt = task.adapt
    try:
        composed = write(adapt.composer, adapt.seed, task.place)
    except NothingComposed as error:
        _refuse(task, str(error))
    except JudgeError as error:  # the machine's fault: every other task would meet it, too
        return _halt(adapt, f"The tasks cannot be written: {error}")
    except WriterAway as error:
        if error.permanent:
            return _halt(adapt, f"The tasks cannot be written: {error}")
        _later(task, error, clock())
    else:
        _take(task, composed)
    return adapt_advance(adapt_id=adapt.pk, now=clock(), settled=settled)


def _halt(adapt: AdaptRun, why: str) -> list[Hop]:
    """Pause the run and say why, unless somebody ended it meanwhile."""
    with suppress(ActionRefused):
        adapt_pause(adapt=adapt, user=None, why=why)
    return []


def _wanted(task: AdaptTask) -> bool:
    return task.state == AdaptTask.State.WAITING and task.adapt.state == AdaptRun.State.RUNNING


def _take(task: AdaptTask, composed: Composed) -> None:
    """Write text and problem together, unless somebody was faster."""
    with transaction.atomic():
        adapt_locked(task.adapt_id)
        row = AdaptTask.objects.select_for_update().get(pk=task.pk)
        if row.state != AdaptTask.State.WAITING or row.problem_id is not None:
            if "call" in composed.recipe and "call" not in row.recipe:  # it came too late and costs all the same
                row.recipe = {**row.recipe, "call": composed.recipe["call"]}
                row.save(update_fields=["recipe"])
                task_call_add(row.adapt_id, composed.recipe["call"])
            return
        row.source, row.recipe, row.asked_at = composed.source, composed.recipe, None
        row.problem, row.reason = _problem(row, composed)
        if row.reason:
            row.state = AdaptTask.State.REFUSED
        row.save(update_fields=["source", "recipe", "asked_at", "problem", "reason", "state"])
        if "call" in composed.recipe:
            task_call_add(row.adapt_id, composed.recipe["call"])


def _problem(task: AdaptTask, composed: Composed) -> tuple[Problem | None, str]:
    """The row of the text, an earlier adapt run's too; or why there is none."""
    name = f"synthetic {composed.title}" if composed.title else "synthetic"
    try:
        problem, _ = problem_upload(
            name=f"{name[:60]}.py",
            data=composed.source.encode(),
            user=task.adapt.owner,
            origin=Problem.Origin.SYNTHETIC,
            title=composed.title,
        )
    except ProblemRejected as error:
        return None, str(error)
    if problem.origin != Problem.Origin.SYNTHETIC:
        return None, f"This is the known problem {problem.slug}."
    if AdaptTask.objects.filter(adapt=task.adapt, problem=problem).exists():
        return None, "An earlier task has the same text."
    return problem, ""


def task_admit(
    *,
    task_id: int,
    bench_for: Callable[[Device], Bench],
    clock: Callable[[], datetime] = timezone.now,
    settled: bool = False,
    since: datetime | None = None,
) -> list[Hop]:
    """Preflight a waiting task's problem on the run's device, then go on. A decided one is not run again.

    One that is under way is left to whoever does it, unless it was begun before `since`: by a process that is gone.
    """
    task = AdaptTask.objects.select_related("adapt__device", "problem").filter(pk=task_id).first()
    if task is None or not _wanted(task) or task.problem is None:
        return []
    device = task.adapt.device
    check = preflight(task.problem, device, now=clock())
    if not check.decided and (check.state != "running" or check.stalled or check.left_behind(since)):
        begun = clock()
        _clocked(task, begun=1)
        try:
            problem_admit(problem=task.problem, device=device, bench=bench_for(device))
        except JudgeError:
            _refuse(task, preflight(task.problem, device, now=clock()).why_not)
        _clocked(task, timed=1, s=max((clock() - begun).total_seconds(), 0.0))
    check = preflight(task.problem, device, now=clock())
    if check.usable:
        _sign(task, check.report)
    return adapt_advance(adapt_id=task.adapt_id, now=clock(), settled=settled)


def _clocked(task: AdaptTask, **more: float) -> None:
    """Count a preflight that begins or has ended, with the device's seconds: the run's budget is charged for it."""
    with transaction.atomic():
        row = AdaptTask.objects.select_for_update(of=("self",)).get(pk=task.pk)
        kept = row.recipe.get("preflight", NO_PREFLIGHT)
        task.recipe = {**row.recipe, "preflight": {name: kept[name] + more.get(name, 0) for name in NO_PREFLIGHT}}
        AdaptTask.objects.filter(pk=task.pk).update(recipe=task.recipe)


def _sign(task: AdaptTask, report: dict[str, Any]) -> None:
    """Keep what the wiring comes to, and which problem that nobody composed has the same."""
    signature = graph_signature(report.get("graph"))
    recipe = {"preflight": NO_PREFLIGHT, **task.recipe, "graph": signature}
    if signature and "transfer" not in recipe:
        recipe["twin"] = _twin(signature, task.adapt.device)
    AdaptTask.objects.filter(pk=task.pk, state=AdaptTask.State.WAITING).update(recipe=recipe)


def _twin(signature: str, device: Device) -> str:
    """The slug of the first problem of people with this op graph; empty when none has."""
    graph = KeyTransform("graph", KeyTransform(device.name, "admission"))
    known = Problem.objects.exclude(origin=Problem.Origin.SYNTHETIC).annotate(graph=graph).order_by("pk")
    rows = known.values_list("slug", "graph")
    return next((slug for slug, one in rows if isinstance(one, dict) and graph_signature(one) == signature), "")


def _later(task: AdaptTask, error: WriterAway, now: datetime) -> None:
    """Ask again in half a minute, and each time in twice as long; after AWAY_TRIES no task comes any more.

    So an endpoint that is away for an hour costs that hour and no tasks.
    """
    tries = task.recipe.get("away", 0) + 1
    if tries >= AWAY_TRIES:
        _refuse(task, f"No task came: {error}")
        return
    wait = timedelta(seconds=AWAY_S * 2 ** (tries - 1) - ASK_AGAIN_S.get(task.adapt.composer, 0.0))
    waiting = AdaptTask.objects.filter(pk=task.pk, state=AdaptTask.State.WAITING, problem=None)
    waiting.update(recipe={**task.recipe, "away": tries}, asked_at=now + wait)


def _refuse(task: AdaptTask, reason: str) -> None:
    """Close a waiting task, unless somebody was faster."""
    waiting = AdaptTask.objects.filter(pk=task.pk, state=AdaptTask.State.WAITING)
    waiting.update(state=AdaptTask.State.REFUSED, reason=reason)
