"""Adapt runs: practice tasks, written one after the other and searched with memory and without."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models.fields.json import KeyTransform
from django.utils import timezone
from django.utils.translation import gettext

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.text import counted
from judge.bench.runner import Bench
from judge.devices.models import Device
from judge.problems.models import Problem
from judge.problems.preflight import Preflight, preflight
from judge.problems.services import ProblemRejected, problem_upload
from judge.values import JudgeError
from memory.adapt.composing import Composed, NothingComposed, graph_signature
from memory.adapt.models import AdaptRun, AdaptTask
from memory.failures.models import Failure
from memory.prompting.choices import OFF, MemoryChoice
from memory.prompting.freezing import Evidence
from search.batches.budgets import LIMITS, NoPrice, limits_of_adapt, may_admit, may_ask, room_of, share_of
from search.batches.composers import MODEL, WriterAway, check_composer, write_task
from search.batches.engine import ASK_AGAIN_S, MAX_AT_ONCE, SOURCES, Plan, Source, Tools, Writer
from search.engine.spending import adapt_call_add
from search.ledger.models import Spending
from search.records.models import Run
from search.records.queue import FollowUp
from search.runs.services import MAX_STEPS, proposer_check, run_start

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

MAX_TASKS = 2000
CONTROL_STEPS = 5  # see docs/adr/0027-adapt-runs.md
DIALECT = {"dialect": "mixed"}  # the built-in proposer makes no mistakes otherwise: there would be nothing to learn
TRANSFER = "transfer"
COMPOSE_AGAIN_S = {"builtin": 60.0, "model": 900.0}  # a task that was asked for and has not come by then
AHEAD = 2  # tasks composed and preflighted beyond the free places: a free place does not wait
MOST_PER_TASK = 3  # compositions for one that is attempted, before the run gives up
SPARE = 10
LEARN_S = 120.0  # so long the next task waits for what the last one's failures teach
SLOW_MS = 3000.0  # one run of a reference: more would cost every evaluation too much
AWAY_TRIES = 8  # of one task: over an hour
AWAY_S = 30.0
NO_PREFLIGHT = {"begun": 0, "timed": 0, "s": 0.0}  # how often one was begun and ended for this task, and for how long


@dataclass(frozen=True)
class AdaptPlan(Plan):
    """What an adapt run is started with. `limits` are of the whole run: tokens, usd, device_s, wall_s."""

    tasks: int = 200
    steps: int = 25
    control_steps: int | None = None
    composer: str = "builtin"
    limits: Mapping[str, Any] = field(default_factory=dict)
    memory: MemoryChoice = field(default_factory=lambda: MemoryChoice(uses=True, learns=True, trust="auto"))


class Adapts(Source):
    """The source of an adapt run is a composer; that of a transfer, given problems."""

    name, noun = "adapt", "adapt run"
    rows, items = AdaptRun, AdaptTask
    searched_as = ("adapt_task", "adapt_control")
    tasks = ("compose_task", "admit_task")
    unread = ("source", "problem__source", "problem__admission", "problem__description")

    def advance(self, batch_id: int, *, now: datetime | None = None, settled: bool = False) -> list[FollowUp]:
        """The same for every batch; without a price for its limited money the run is paused."""
        try:
            return super().advance(batch_id, now=now, settled=settled)
        except NoPrice as error:  # the whole transaction is rolled back
            return self.halt(AdaptRun.objects.get(pk=batch_id), str(error))

    def fill(self, batch: AdaptRun, items: list[AdaptTask], now: datetime, *, settled: bool) -> list[FollowUp]:
        """Start the next tasks in their order and ask for what is missing before them; finish when nothing is left.

        Unless `settled`, the next task waits a while for what earlier failures teach.
        """
        if self._over(batch, items, now) or batch.device.state != Device.State.ACTIVE:
            return []  # searches in flight end by their own rules; no search starts on a device that is not active
        free = batch.at_once - sum(task.live for task in items)
        ready = settled or not _unlearned(batch, now)
        follow_ups = self._decide(batch, items, free if ready else 0, now)
        follow_ups += _more(batch, items, max(free, 0), now)
        if not follow_ups:
            self._over(batch, items, now)  # the last tasks may have been refused just now
        return follow_ups

    def _over(self, adapt: AdaptRun, tasks: list[AdaptTask], now: datetime) -> bool:
        """Finish the run when no search is open and no task is left, or a limit leaves no room for one. True if so."""
        if any(task.live for task in tasks):
            return False  # what open searches hold of the limits comes back when they end
        spent = _exhausted(adapt, tasks, now)
        waiting = [task for task in tasks if task.waiting]
        if spent:
            for task in waiting:
                task.close(AdaptTask.State.SKIPPED, spent)
        elif waiting or _needs_more(adapt, tasks):
            return False
        self.finish(adapt, now, spent or _shortfall(adapt, tasks))
        return True

    def _decide(self, adapt: AdaptRun, tasks: list[AdaptTask], free: int, now: datetime) -> list[FollowUp]:
        """Decide waiting tasks and start them, none before one that comes before it."""
        follow_ups: list[FollowUp] = []
        in_order = True
        for task in [task for task in tasks if task.waiting]:
            if task.problem is None:
                patience = COMPOSE_AGAIN_S.get(adapt.composer, ASK_AGAIN_S)
                follow_ups += self.ask(FollowUp("compose_task", task.pk), task, now, patience_s=patience)
                in_order = False
                continue
            check = preflight(task.problem, adapt.device, now=now)
            if not (check.decided or check.barred) or (check.usable and "graph" not in task.recipe):
                held = task.asked_at is not None  # asked for before: the budget holds its time
                if check.decided or held or may_admit(adapt, now):
                    admit = FollowUp("admit_task", task.pk, queue=adapt.device.queue)
                    follow_ups += self.ask(admit, task, now, again=check.stalled)
                in_order = False
                continue
            reason = _refusal(task, check) or (_duplicate_before(task, tasks) if in_order else "")
            if reason:
                task.close(AdaptTask.State.REFUSED, reason)
            elif in_order and free > 0 and (started := self._start(adapt, task, free, now)):
                free -= 1
                follow_ups += [FollowUp("advance", run.pk) for run in started]
            elif task.waiting:
                in_order = False
        return follow_ups

    def _start(self, adapt: AdaptRun, task: AdaptTask, free: int, now: datetime) -> list[Run]:
        """Start both searches of a task, or none: with memory, and without for the comparison.

        None also while open searches hold what is left of the budget, and where the proposer cannot work, which pauses
        the run: the task then waits.
        """
        assert task.problem is not None
        arms = 2 if adapt.control_steps else 1
        share = share_of(adapt, searches=free * arms, now=now) or share_of(adapt, searches=arms, now=now)
        if share is None:
            return []
        given = self.search_of(adapt, task.problem) | {"origin": Run.Origin.ADAPT, "limits": share}
        name, title = f"adapt:{adapt.pk}:{task.pk}", f"Adapt {adapt.pk} task {task.place}"
        try:
            with transaction.atomic():
                memory = MemoryChoice.from_json(adapt.memory)
                held_out = Evidence(not_on=task.problem.pk, learned_by=adapt.transfer_of_id)
                task.run = run_start(
                    steps=adapt.steps, memory=memory, evidence=held_out, key=name, title=title, **given
                )
                if adapt.control_steps:
                    given |= {"steps": adapt.control_steps, "memory": OFF}
                    task.control = run_start(key=f"{name}:control", title=f"{title}, no memory", **given)
                task.state = AdaptTask.State.STARTED
                task.save(update_fields=["run", "control", "state"])
        except ActionRefused as error:
            task.run = task.control = None
            if not self._halted(adapt):
                task.close(AdaptTask.State.REFUSED, str(error))
            return []
        return [run for run in (task.run, task.control) if run is not None]

    def _halted(self, adapt: AdaptRun) -> bool:
        """Pause it when its proposer cannot work: every other task would be refused for it, too."""
        try:
            proposer_check(adapt.proposer, adapt.proposer_options)
        except ActionRefused as error:
            self.halt(adapt, f"No search can start: {error}")
            return True
        return False

    # The way of a task to its search: composed, stored as a problem, preflighted, perhaps refused

    def compose(
        self,
        task_id: int,
        *,
        write: Writer = write_task,
        clock: Callable[[], datetime] = timezone.now,
        settled: bool = False,
    ) -> list[FollowUp]:
        """Write a waiting task and store it as a problem, then go on. One that is written already stays as it is."""
        task = self.wanted(task_id)
        if task is None or task.problem is not None:
            return []
        adapt = task.adapt
        try:
            composed = write(adapt.composer, adapt.seed, task.place)
        except NothingComposed as error:
            self.refuse(task, str(error))
        except JudgeError as error:  # a fault of the machine: every other task would meet it, too
            return self.halt(adapt, f"The tasks cannot be written: {error}")
        except WriterAway as error:
            if error.permanent:
                return self.halt(adapt, f"The tasks cannot be written: {error}")
            self._later(task, error, clock())
        else:
            self._store(task, composed)
        return self.advance(adapt.pk, now=clock(), settled=settled)

    def _later(self, task: AdaptTask, error: WriterAway, now: datetime) -> None:
        """Ask again in half a minute, and each time in twice as long; after AWAY_TRIES the task is refused.

        So an endpoint that is away for an hour costs that hour and no tasks.
        """
        tries = task.recipe.get("away", 0) + 1
        if tries >= AWAY_TRIES:
            self.refuse(task, f"No task came: {error}")
            return
        wait = timedelta(seconds=AWAY_S * 2 ** (tries - 1) - COMPOSE_AGAIN_S.get(task.adapt.composer, 0.0))
        waiting = AdaptTask.objects.filter(pk=task.pk, state=AdaptTask.State.WAITING, problem=None)
        waiting.update(recipe={**task.recipe, "away": tries}, asked_at=now + wait)

    def _store(self, task: AdaptTask, composed: Composed) -> None:
        """Write text and problem together, unless another process was faster; the call is paid for all the same."""
        with transaction.atomic():
            self.locked(task.adapt_id)
            row = AdaptTask.objects.select_for_update().get(pk=task.pk)
            late = not row.waiting or row.problem_id is not None
            call = composed.recipe.get("call")
            if call is not None and not (late and "call" in row.recipe):
                adapt_call_add(row.adapt_id, call, kind=Spending.Kind.TASK)
                row.recipe = {**row.recipe, "call": call}
            if not late:
                row.source, row.recipe, row.asked_at = composed.source, composed.recipe, None
                row.problem, row.reason = _problem(row, composed)
                if row.reason:
                    row.state = AdaptTask.State.REFUSED
            row.save(update_fields=["source", "recipe", "asked_at", "problem", "reason", "state"])

    def examine(self, item: AdaptTask, bench_for: Callable[[Device], Bench], clock: Callable[[], datetime]) -> None:
        """The same for every batch, with the device's seconds counted: the run's budget is charged for it."""
        begun = clock()
        _clocked(item, begun=1)
        super().examine(item, bench_for, clock)
        _clocked(item, timed=1, s=max((clock() - begun).total_seconds(), 0.0))

    def examined(self, item: AdaptTask, check: Preflight) -> None:
        """Keep the signature of the op graph, and which problem that was not composed has the same."""
        if not check.usable:
            return
        signature = graph_signature(check.report.get("graph"))
        recipe = {"preflight": NO_PREFLIGHT, **item.recipe, "graph": signature}
        if signature and TRANSFER not in recipe:
            recipe["twin"] = _known_as(signature, item.adapt.device)
        AdaptTask.objects.filter(pk=item.pk, state=AdaptTask.State.WAITING).update(recipe=recipe)

    # Driven by a command

    def do(self, follow_up: FollowUp, tools: Tools, begun: datetime) -> list[FollowUp]:
        """Compose or preflight."""
        if follow_up.task == "compose_task":
            return self.compose(follow_up.target, write=tools.write or write_task, settled=True)
        return super().do(follow_up, tools, begun)

    def settle(self, batch: AdaptRun, tools: Tools, tried: set[int]) -> None:
        """Learn from failures of ended searches whose follow-up task died with a process, each tried once: the
        distiller may be away. So the same seed gives the same searches."""
        left = Failure.objects.filter(lesson="", run__adapt_task__adapt=batch, run__memory__learns=True)
        ended = left.filter(run__state__in=Run.ENDED).exclude(pk__in=tried).select_related("run__device")
        for failure in ended.order_by("told_at", "pk"):
            tried.add(failure.pk)
            self.drive_search(batch, failure.run, tools, [FollowUp("learn", failure.pk)])


ADAPTS = SOURCES["adapts"] = Adapts()


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
        raise ActionRefused(gettext("No problem is chosen. Import or upload some: manage.py import_problems PATH."))
    if any(problem.origin == Problem.Origin.SYNTHETIC for problem in unique):
        raise ActionRefused(gettext("A transfer cannot use composed problems. Leave the synthetic ones out."))
    if learned_by.transfer_of_id is not None:
        text = gettext("A transfer does not learn new rules. Choose the adapt run that it took its rules from.")
        raise ActionRefused(text)
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
    if (first := ADAPTS.created(key)) is not None:
        return first  # type: ignore[no-any-return]
    if plan.options is None:
        plan = dataclasses.replace(plan, options=DIALECT if plan.proposer == "builtin" else {})
    fields = plan.fields(
        f"Transfer of adapt run {learned_by.pk}" if learned_by else counted(plan.tasks, "task"),  # stored
        (gettext("Tasks"), plan.tasks, 1, MAX_TASKS),
        (gettext("Steps of each task"), plan.steps, 1, MAX_STEPS),
        (gettext("Steps without memory"), plan.control_steps or 0, 0, plan.steps),
        (gettext("Tasks at once"), plan.at_once, 1, MAX_AT_ONCE),
    )
    options = fields["proposer_options"]
    fields |= {
        "composer": plan.composer,
        "tasks": plan.tasks,
        "steps": plan.steps,
        "control_steps": min(CONTROL_STEPS, plan.steps) if plan.control_steps is None else plan.control_steps,
        "limits": limits_of_adapt(plan.limits, device=plan.device, proposer=plan.proposer, options=options),
        "transfer_of": learned_by,
    }
    items = [{"problem": problem, "recipe": {TRANSFER: learned_by.pk}} for problem in problems if learned_by]
    after = {"tasks": plan.tasks, "steps": plan.steps, "proposer": plan.proposer, "device": plan.device.name}
    return ADAPTS.create(fields, items, after=after, user=user, key=key)  # type: ignore[no-any-return]


def _more(adapt: AdaptRun, tasks: list[AdaptTask], free: int, now: datetime) -> list[FollowUp]:
    """New places while tasks are missing, few wait, and the limits have room to write one. Appends to `tasks`."""
    follow_ups: list[FollowUp] = []
    while (
        sum(task.waiting for task in tasks) < free + AHEAD
        and _needs_more(adapt, tasks)
        and (adapt.composer != MODEL or may_ask(adapt, now))
    ):
        place = max((task.place for task in tasks), default=0) + 1
        tasks.append(AdaptTask.objects.create(adapt=adapt, place=place, asked_at=now))
        follow_ups.append(FollowUp("compose_task", tasks[-1].pk))
    return follow_ups


def _counted(tasks: list[AdaptTask]) -> int:
    """Tasks that are attempted or may be."""
    return sum(task.waiting or task.state == AdaptTask.State.STARTED for task in tasks)


def _needs_more(adapt: AdaptRun, tasks: list[AdaptTask]) -> bool:
    """Whether another task is to be composed."""
    missing = adapt.transfer_of_id is None and _counted(tasks) < adapt.tasks
    return missing and len(tasks) < MOST_PER_TASK * adapt.tasks + SPARE


def _shortfall(adapt: AdaptRun, tasks: list[AdaptTask]) -> str:
    """Why a run that has ended attempted fewer tasks than wanted; empty where it did not."""
    started = sum(task.state == AdaptTask.State.STARTED for task in tasks)
    if adapt.transfer_of_id is None and started < adapt.tasks:
        return f"Of {len(tasks)} composed tasks {started} could be attempted; more are not tried."
    return "" if started else f"None of {len(tasks)} tasks could be attempted. Each lists its reason."


def _exhausted(adapt: AdaptRun, tasks: list[AdaptTask], now: datetime) -> str:
    """Which limit leaves no room for another task or its preflight; empty while there is some."""
    arms = 2 if adapt.control_steps else 1
    if not adapt.limits:
        return ""
    if share_of(adapt, searches=arms, now=now, writing=False) is not None:
        waiting = [task for task in tasks if task.waiting]
        ready = any(task.asked_at or "graph" in task.recipe for task in waiting)
        missing = waiting or _needs_more(adapt, tasks)
        if ready or not missing or may_admit(adapt, now, writing=False):
            return ""
        return f"The limit of {LIMITS['device_s'].text} leaves no room for another preflight."
    room = room_of(adapt, now, writing=False)
    least = min(room, key=lambda name: room[name] / max(int(float(adapt.limits[name])), 1))
    return f"The limit of {LIMITS[least].text} leaves no room for another task."


def _unlearned(adapt: AdaptRun, now: datetime) -> bool:
    """Whether failures of earlier tasks have yet to teach. One that no worker takes delays the run for LEARN_S only."""
    recent = Failure.objects.filter(lesson="", told_at__gt=now - timedelta(seconds=LEARN_S))
    return recent.filter(run__adapt_task__adapt=adapt, run__memory__learns=True).exists()


def _refusal(task: AdaptTask, check: Preflight) -> str:
    """Why a decided problem is no task; empty while it may be one."""
    if check.problem.quarantined:
        return check.why_not
    if check.state in ("refused", "degenerate"):
        said = str(check.report.get("message") or "").strip()
        return f"{check.report.get('reason') or check.state}: {said}"
    if not check.usable:
        return ""
    slow = max((stage["wall_ms"] for stage in check.stages if stage["name"] == "reference"), default=0.0)
    if slow > SLOW_MS:
        return f"problem.slow: one run of the reference takes {slow / 1000:.1f} s; {SLOW_MS / 1000:g} s are the limit."
    return _duplicate(task.recipe["twin"]) if task.recipe.get("twin") else ""


def _duplicate_before(task: AdaptTask, tasks: list[AdaptTask]) -> str:
    """Whether an earlier task has the same op graph; all before it are decided."""
    signature = task.recipe["graph"]
    if not signature or TRANSFER in task.recipe:
        return ""
    before = (one for one in tasks if one.place < task.place and one.state == AdaptTask.State.STARTED)
    equal = next((one for one in before if one.recipe.get("graph") == signature), None)
    return _duplicate(f"task {equal.place}") if equal else ""


def _duplicate(of: str) -> str:
    return f"problem.duplicate: {of} has the same operators in the same wiring."


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


def _clocked(task: AdaptTask, **more: float) -> None:
    """Count a preflight that begins or has ended, with its seconds."""
    with transaction.atomic():
        row = AdaptTask.objects.select_for_update(of=("self",)).get(pk=task.pk)
        kept = row.recipe.get("preflight", NO_PREFLIGHT)
        task.recipe = {**row.recipe, "preflight": {name: kept[name] + more.get(name, 0) for name in NO_PREFLIGHT}}
        AdaptTask.objects.filter(pk=task.pk).update(recipe=task.recipe)


def _known_as(signature: str, device: Device) -> str:
    """The slug of the first problem that was not composed and has this op graph; empty when none has."""
    graph = KeyTransform("graph", KeyTransform(device.name, "admission"))
    known = Problem.objects.exclude(origin=Problem.Origin.SYNTHETIC).annotate(graph=graph).order_by("pk")
    rows = known.values_list("slug", "graph")
    return next((slug for slug, one in rows if isinstance(one, dict) and graph_signature(one) == signature), "")
