"""An adapt run as shown: its tasks, what was learned, its effect; as rows, data and lines of text."""

from __future__ import annotations

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from django.db.models import Count, Min, Q

from adaexplore_site.core.downloads import safe
from adaexplore_site.core.text import one_line
from judge.values import Verdict
from memory.adapt.effect import Arm, Effect, Outcome, effect_of
from memory.adapt.models import AdaptRun, AdaptTask
from memory.failures.models import Failure
from memory.prompting.lift import NOT_TRIED, UNDECIDED
from memory.prompting.models import FrozenRule
from memory.rules.models import Rule, Sighting
from search.batches.budgets import spent_line, spent_of
from search.records.facts import verdict_of
from search.records.models import Node, Run

_OPEN = [state for state in Run.State.values if state not in Run.ENDED]


@dataclass(frozen=True)
class TaskRow:
    """One task, and how its attempts ended."""

    task: AdaptTask
    outcome: Outcome

    @property
    def completed(self) -> int:
        return len(self.outcome.shown.attempts)

    @property
    def passed(self) -> int:
        return sum(one is True for one in self.outcome.shown.attempts)


@dataclass(frozen=True)
class Progress:
    """Tasks of an adapt run: composed, of those admitted, attempted and ended; and why others were not."""

    refusals: tuple[tuple[str, int], ...]  # reason code and count, most frequent first
    generated: int = 0
    validated: int = 0
    attempted: int = 0
    ended: int = 0
    waiting: int = 0


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

    batch: AdaptRun
    progress: Progress


def adapt_rows(adapts: Sequence[AdaptRun]) -> list[AdaptRow]:
    """These adapt runs at a glance, in two queries."""
    tasks = AdaptTask.objects.filter(adapt__in=adapts)
    refusals: dict[int, Counter[str]] = defaultdict(Counter)
    refused = tasks.filter(state=AdaptTask.State.REFUSED).order_by("place")
    for adapt_id, reason in refused.values_list("adapt", "reason"):
        refusals[adapt_id][_code(reason)] += 1
    started, examined = Q(state=AdaptTask.State.STARTED), Q(recipe__has_key="graph")
    live = Q(run__state__in=_OPEN) | Q(control__state__in=_OPEN)
    counts = (
        tasks.order_by()
        .values_list("adapt")
        .annotate(
            generated=Count("problem"),
            validated=Count("pk", filter=started | (examined & Q(state__in=("waiting", "skipped")))),
            attempted=Count("pk", filter=started),
            ended=Count("pk", filter=started & ~live),
            left=Count("pk", filter=Q(state=AdaptTask.State.WAITING)),
        )
    )
    found: dict[int, list[int]] = {adapt_id: numbers for adapt_id, *numbers in counts}
    return [
        AdaptRow(adapt, Progress(tuple(refusals[adapt.pk].most_common()), *found.get(adapt.pk, ()))) for adapt in adapts
    ]


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
        arms = (Arm(attempts.get(search or 0, ())) for search in (task.run_id, task.control_id))
        name = task.problem.slug if task.problem else ""
        rows.append(TaskRow(task, Outcome(task.place, name, rules.get(task.run_id, 0), *arms)))
    return rows


def _attempts(run_ids: Sequence[int]) -> dict[int, tuple[bool | None, ...]]:
    """Run id -> its attempts by number: completed ones as passed or not. A node in flight ends the row: what comes
    after it has no place yet.

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


SETTINGS = (
    "title", "state", "stop_reason", "proposer", "proposer_options", "composer", "seed", "tasks", "steps",
    "control_steps", "memory", "limits",
)  # fmt: skip


def adapt_document(adapt: AdaptRun) -> dict[str, Any]:
    """Progress, what was learned, cost and effect as plain JSON."""
    rows = task_rows(adapt)
    progress = adapt_rows([adapt])[0].progress
    return {
        "id": adapt.pk,
        **{name: getattr(adapt, name) for name in SETTINGS},
        "device": adapt.device.name,
        "transfer_of": adapt.transfer_of_id,
        "progress": {**asdict(progress), "refusals": dict(progress.refusals)},
        "learned": asdict(learned_by(adapt)),
        "spent": spent_of(adapt).to_json(),
        "effect": effect_read(adapt, rows).to_json(),
        "entries": [_entry(row) for row in rows],
    }


def _entry(row: TaskRow) -> dict[str, Any]:
    task, shown, control = row.task, row.outcome.shown, row.outcome.control
    return {
        "place": task.place,
        "problem": row.outcome.name,
        "chain": task.recipe.get("chain", []),
        "state": task.search_state,
        "reason": task.reason,
        "run": task.run_id,
        "control": task.control_id,
        "rules": row.outcome.rules,
        "told": row.completed,
        "passed": row.passed,
        "first_with": shown.first,
        "first_without": control.first,
        "attempts_with": list(shown.attempts),
        "attempts_without": list(control.attempts),
    }


COLUMNS = (
    "place", "problem", "state", "rules", "told", "passed", "first_with", "first_without", "attempts_with",
    "attempts_without", "reason",
)  # fmt: skip


def adapt_csv(document: dict[str, Any]) -> str:
    """One line per task. Attempts as a text of p (passed), f (did not) and x (not counted)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_cell(entry[name]) for name in COLUMNS] for entry in document["entries"])
    return out.getvalue()


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return "".join("x" if one is None else "p" if one else "f" for one in value)
    return int(value) if isinstance(value, bool) else safe(value)


def task_line(task: AdaptTask) -> str:
    """One line when something was decided about a task, else empty."""
    if task.state == AdaptTask.State.REFUSED:
        return f"task {task.place}: refused. {one_line(task.reason, 160)}"
    if task.state == AdaptTask.State.STARTED and task.problem is not None:
        return f"task {task.place}: {one_line(task.problem.title, 120)}"
    return ""


def progress_line(row: AdaptRow) -> str:
    """State and counts in one line, and why it ended or waits."""
    adapt, done = row.batch, row.progress
    refused = ", ".join(f"{count} {code}" for code, count in done.refusals)
    return (
        f"adapt run {adapt.pk} ({adapt.title}): {adapt.state}, {done.generated} tasks composed, {done.validated} "
        f"admitted, {done.attempted} attempted, {done.ended} ended"
        + (f"; refused: {refused}" if refused else "")
        + (f". {adapt.stop_reason}" if adapt.stop_reason else "")
    )


def effect_lines(document: dict[str, Any]) -> list[str]:
    """What was learned and what that did, for a terminal. Every share comes with its interval."""
    learned, effect = document["learned"], document["effect"]
    lines = [
        f"  {learned['failures']} failures; rules: {learned['new']} new, {learned['merged']} merged, "
        f"{learned['repeated']} repeated, {learned['nothing']} nothing to learn, {learned['unfit']} unfit",
        f"  {spent_line(document['spent'])}",
    ]
    if not document["control_steps"]:
        return [*lines, "  no comparison: the run has no searches without memory"]
    with_memory, without = effect["pass_1"]
    return [
        *lines,
        f"  first attempts that pass: {_share(with_memory)} with memory, {_share(without)} without",
        f"  paired difference: {_difference(effect['first'])}",
        f"  where rules were active: {_difference(effect['first_with_rules'])}",
        f"  share of the first {effect['k']} attempts: {_difference(effect['valid_k'])}",
        f"  best of {effect['k']}: {_difference(effect['best_k'])}",
        f"  {effect['verdict']}",
    ]


def _share(share: dict[str, Any]) -> str:
    if share["value"] is None:
        return "none yet"
    return f"{share['value']:.0%} [{share['low']:.0%}-{share['high']:.0%}] n={share['n']}"


def _difference(found: dict[str, Any]) -> str:
    if found["value"] is None:
        return "nothing to compare yet"
    return f"{100 * found['value']:+.1f} points [{100 * found['low']:+.1f}, {100 * found['high']:+.1f}] n={found['n']}"
