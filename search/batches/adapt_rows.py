"""An adapt run as shown: its tasks with both searches, what was learned, and its effect."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Count, Min, Q

from judge.values import Verdict
from memory.adapt.effect import Arm, Effect, Outcome, effect_of
from memory.adapt.models import AdaptRun, AdaptTask
from memory.failures.models import Failure
from memory.prompting.lift import NOT_TRIED, UNDECIDED
from memory.prompting.models import FrozenRule
from memory.rules.models import Rule, Sighting
from search.records.facts import verdict_of
from search.records.models import Node, Run


@dataclass(frozen=True)
class TaskRow:
    """One task. `state` is waiting, refused, skipped, or the state of its search with memory."""

    task: AdaptTask
    told: int
    passed: int
    rules: int
    outcome: Outcome

    @property
    def state(self) -> str:
        if self.task.run is not None:
            return str(self.task.run.state)
        return "stopped" if self.task.state == AdaptTask.State.STARTED else str(self.task.state)


@dataclass(frozen=True)
class Progress:
    """Tasks of an adapt run: composed, of those admitted, attempted and ended; and why others were not."""

    generated: int
    validated: int
    attempted: int
    ended: int
    waiting: int
    refusals: tuple[tuple[str, int], ...]  # reason code and count, most frequent first


@dataclass(frozen=True)
class Learned:
    """What its failures taught. `new` rules were first seen here, `merged` ones joined another since, `repeated` counts
    failures that supported a rule that was there already."""

    failures: int
    asked: int
    nothing: int
    unfit: int
    new: int
    merged: int
    repeated: int
    rules: int


@dataclass(frozen=True)
class AdaptRow:
    """One adapt run at a glance."""

    adapt: AdaptRun
    progress: Progress


def adapt_rows(adapts: Sequence[AdaptRun]) -> list[AdaptRow]:
    """These adapt runs at a glance, in a constant number of queries."""
    tasks: dict[int, list[_Task]] = defaultdict(list)
    found = AdaptTask.objects.filter(adapt__in=adapts).order_by("place")
    columns = ("adapt", "state", "reason", "run__state", "control__state", "recipe__graph", "problem")
    for adapt_id, *task in found.values_list(*columns):
        tasks[adapt_id].append(_Task(*task))
    return [AdaptRow(adapt, _progress(tasks[adapt.pk])) for adapt in adapts]


class _Task(NamedTuple):
    state: str
    reason: str
    run: str | None  # state of its search
    control: str | None
    graph: str | None  # there once the preflight has passed
    problem: int | None  # there once it is written

    @property
    def live(self) -> bool:
        return any(state is not None and state not in Run.ENDED for state in (self.run, self.control))


def _progress(tasks: Sequence[_Task]) -> Progress:
    codes = Counter(_code(task.reason) for task in tasks if task.state == AdaptTask.State.REFUSED)
    started = [task for task in tasks if task.state == AdaptTask.State.STARTED]
    passed = [task for task in tasks if task.graph is not None and task.state in ("waiting", "skipped")]
    return Progress(
        generated=sum(task.problem is not None for task in tasks),
        validated=len(started) + len(passed),
        attempted=len(started),
        ended=sum(not task.live for task in started),
        waiting=sum(task.state == AdaptTask.State.WAITING for task in tasks),
        refusals=tuple(codes.most_common()),
    )


def _code(reason: str) -> str:
    """ "problem.constant: The output ..." -> "problem.constant"."""
    head = reason.partition(":")[0]
    return head if head.startswith("problem.") and " " not in head else "other"


def task_rows(adapt: AdaptRun) -> list[TaskRow]:
    """Every task in order, with both searches' attempts. Four queries."""
    tasks = list(
        adapt.entries.select_related("problem", "run", "control")
        .defer("source", "problem__source", "problem__admission", "problem__description")
        .order_by("place")
    )
    ids = [pk for task in tasks for pk in (task.run_id, task.control_id) if pk]
    attempts = _attempts(ids)
    frozen = FrozenRule.objects.filter(memory__run__in=ids).order_by().values_list("memory__run").annotate(Count("pk"))
    rules = dict(frozen)
    rows = []
    for task in tasks:
        shown, control = attempts.get(task.run_id or 0, ()), attempts.get(task.control_id or 0, ())
        known = rules.get(task.run_id, 0)
        name = task.problem.slug if task.problem else ""
        outcome = Outcome(task.place, name, known, Arm(shown), Arm(control))
        rows.append(TaskRow(task, len(shown), sum(one is True for one in shown), known, outcome))
    return rows


def _attempts(run_ids: Sequence[int]) -> dict[int, tuple[bool | None, ...]]:
    """Run id -> its attempts by number: told ones as passed or not. A node in flight ends the row: what comes after it
    has no place yet.

    None is an attempt that says nothing of memory: one that lift does not count either, or that a person had a hand in.
    """
    nodes = Node.objects.filter(run__in=run_ids, number__gte=1).order_by("run", "number")
    found: dict[int, list[bool | None]] = defaultdict(list)
    open_runs: set[int] = set()
    columns = ("run", "state", "touched", "kind", "reason", "evaluation__verdict")
    for run, state, touched, kind, reason, verdict in nodes.values_list(*columns):
        if run in open_runs:
            continue
        if state in Node.IN_FLIGHT:
            open_runs.add(run)
        else:
            ending = verdict_of(verdict, kind, reason)
            open_end = ending in UNDECIDED or (verdict is None and reason in NOT_TRIED)
            says_nothing = state == Node.State.CANCELLED or touched or open_end
            found[run].append(None if says_nothing else ending == Verdict.PASS)
    return {run: tuple(row) for run, row in found.items()}


def effect_read(adapt: AdaptRun, rows: Sequence[TaskRow]) -> Effect:
    """The comparison over the tasks that were attempted in both arms; decided once the run has finished."""
    started = [row.outcome for row in rows if row.task.run_id and row.task.control_id]
    return effect_of(started, k=adapt.control_steps, final=adapt.state == AdaptRun.State.FINISHED)


def learned_by(adapt: AdaptRun) -> Learned:
    """What the failures of its searches with memory taught, in four queries."""
    failures = Failure.objects.filter(run__adapt_task__adapt=adapt)
    lessons = Counter(dict(failures.order_by().values_list("lesson").annotate(Count("pk"))))
    sightings = Sighting.objects.filter(failure__run__adapt_task__adapt=adapt)
    rules = set(sightings.order_by().values_list("rule", flat=True).distinct())
    moved = set(sightings.exclude(moved_from=None).order_by().values_list("moved_from", flat=True).distinct())
    firsts = Rule.objects.filter(pk__in=rules | moved, created_at__gte=adapt.created_at).annotate(
        mine=Min("sightings", filter=Q(sightings__failure__run__adapt_task__adapt=adapt)), first=Min("sightings")
    )
    new = sum(rule.pk in moved or rule.mine == rule.first for rule in firsts)
    return Learned(
        failures=sum(lessons.values()),
        asked=sum(count for lesson, count in lessons.items() if lesson),
        nothing=lessons["nothing"],
        unfit=lessons["unfit"],
        new=new,
        merged=len(moved),
        repeated=max(sightings.count() - new, 0),
        rules=len(rules),
    )
