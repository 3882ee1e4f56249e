"""What people did to a search: the audit rows in words, newest first, with what can be undone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.db.models import Max, Q
from django.urls import reverse

from adaexplore_site.models import Action
from search.act_words import act_detail, act_text
from search.algorithm.steering import BUDGET, INJECT, PARAMS, Act, Steering
from search.history import history_of, history_undone
from search.models import Node, Run
from search.services.budget_undo import budgets_undone
from search.services.marking import VERBS as MARKING
from search.services.marking import mark_stands
from search.steering_log import steerings_of

MOST = 200


@dataclass(frozen=True)
class Inverse:
    """A form that takes an act back: its button, its address and its fields."""

    label: str
    url: str
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ActivityRow:
    """One act. `undo` is the number of the event to undo, or None; `inverse` what else takes the act back;
    `standing` says why neither, in one word or two."""

    at: datetime
    actor: str
    verb: str
    text: str
    detail: str
    number: int | None
    undo: int | None
    standing: str
    inverse: Inverse | None = None
    imported: bool = False  # done where the search was recorded; `actor` is a name from there


def activity_of(run: Run) -> list[ActivityRow]:
    """The newest acts on a run."""
    actions = Action.objects.filter(object_type="run", object_id=str(run.pk)).select_related("actor")
    return (run_acts(list(actions[:MOST]), {run.pk: run}) + _history(run))[:MOST]


def run_acts(actions: list[Action], runs: Mapping[int, Run]) -> list[ActivityRow]:
    """Acts on these runs with what can be undone, in the order given and a constant number of queries."""
    facts = RunFacts.read(runs, actions)
    return [_with_inverse(_row(action, facts), action, facts) for action in actions]


@dataclass(frozen=True)
class RunFacts:
    """What decides whether acts on runs can be undone. `newest`: of each run's acts on one thing the last one."""

    runs: Mapping[int, Run]
    steering: Mapping[int, Steering]
    waiting: Mapping[int, set[int]]  # injected nodes that wait for a verdict
    budgets: set[int]  # additions that were taken back
    newest: set[int]
    branches: set[int]  # searches branched from these that still run
    marks: Mapping[tuple[int, int], tuple[str, bool]]  # run and node of acts on kernels -> doubt, retired

    @classmethod
    def read(cls, runs: Mapping[int, Run], actions: Iterable[Action] = ()) -> RunFacts:
        """Seven queries at most."""
        ids = list(runs)
        waiting: dict[int, set[int]] = {pk: set() for pk in ids}
        nodes = Node.objects.filter(run__in=ids, state__in=Node.IN_FLIGHT, touched=True)
        for run_id, number in nodes.order_by().values_list("run", "number"):
            waiting[run_id].add(number)
        acts = Action.objects.filter(object_type="run", object_id__in=[str(pk) for pk in ids]).order_by()
        newest = set[int]()
        for verbs in (list(_STATE), ["run.concurrency"], list(_ARCHIVE)):
            last = acts.filter(verb__in=verbs).values("object_id").annotate(last=Max("pk"))
            newest |= set(last.values_list("last", flat=True))
        live = Run.objects.filter(branched_from__run__in=ids).exclude(state__in=Run.ENDED)
        return cls(
            runs=runs,
            steering=steerings_of(ids),
            waiting=waiting,
            budgets=budgets_undone(ids),
            newest=newest,
            branches=set(live.values_list("pk", flat=True)),
            marks=_marks(actions),
        )


def _marks(actions: Iterable[Action]) -> dict[tuple[int, int], tuple[str, bool]]:
    wanted = Q()
    for action in actions:
        if action.verb in MARKING:
            wanted |= Q(run=int(action.object_id), number=action.after["number"])
    if not wanted:
        return {}
    rows = Node.objects.filter(wanted).values_list("run", "number", "evaluation__doubt", "evaluation__retired")
    return {(run, number): (doubt, retired) for run, number, doubt, retired in rows}


def activity_kept(run_id: int) -> list[ActivityRow]:
    """The newest acts on a search that was removed: nothing of them can be undone."""
    actions = Action.objects.filter(object_type="run", object_id=str(run_id)).select_related("actor")
    return [_plain(action) for action in actions[:MOST]]


def _history(run: Run) -> list[ActivityRow]:
    """What was done to an imported search before it came here: nothing of it is a user's, or can be undone."""
    acts = history_of(run.pk)
    return [
        ActivityRow(
            at=datetime.fromisoformat(act.at),
            actor=act.who or "a command",
            verb=act.verb,
            text=act_text(act.verb, act.after),
            detail=act_detail(act.verb, act.after, act.before),
            number=act.after.get("number"),
            undo=None,
            standing="undone there" if undone else "",
            imported=True,
        )
        for act, undone in reversed(list(zip(acts, history_undone(acts), strict=True)))
    ]


def _with_inverse(row: ActivityRow, action: Action, facts: RunFacts) -> ActivityRow:
    """What takes back an act that is not in the fold. On state and concurrency only the newest act counts."""
    run = facts.runs[int(action.object_id)]
    verb, inverse, standing = action.verb, None, row.standing
    steer = reverse("run-steer", args=[run.pk])
    if verb in _STATE or verb in _ARCHIVE or verb == "run.concurrency":
        if action.pk not in facts.newest:
            return replace(row, standing="replaced")
        if verb in _STATE:
            name = _STATE[verb].get(run.state, "")
            inverse = Inverse(name.capitalize(), reverse(f"run-{name}", args=[run.pk])) if name else None
        elif verb in _ARCHIVE:
            inverse = Inverse("Undo", reverse("run-archive", args=[run.pk]), {"archived": _ARCHIVE[verb]})
        elif not run.ended:
            fields = {"act": "concurrency", "concurrency": str(action.after["before"])}
            inverse = Inverse("Undo", steer, fields)
    elif verb == "run.budget":
        standing = "undone" if action.pk in facts.budgets else ""
        if not standing and not run.ended:
            inverse = Inverse("Undo", steer, {"act": "limits-undo", "action": str(action.pk)})
    elif verb in MARKING:
        doubt, retired = facts.marks.get((run.pk, action.after["number"]), ("", False))
        if not mark_stands(verb=verb, after=action.after, doubt=doubt, retired=retired):
            return replace(row, standing="changed since")
        back = {"back": reverse("run-activity", args=[run.pk])}
        inverse = Inverse("Undo", reverse("action-undo", args=[action.pk]), back)
    elif verb == "run.branch" and action.after.get("run") in facts.branches:
        branch = action.after["run"]
        inverse = Inverse(f"Stop #{branch}", reverse("run-stop", args=[branch]))
    return replace(row, inverse=inverse, standing=standing)


_ARCHIVE = {"run.archive": "", "run.unarchive": "1"}  # what the inverse sends
_STATE: dict[str, dict[str, str]] = {
    "run.pause": {Run.State.PAUSED: "resume"},
    "run.resume": {Run.State.RUNNING: "pause"},
    "run.stop": {Run.State.STOPPING: "resume", Run.State.STOPPED: "resume"},
    "run.kill": {Run.State.STOPPED: "resume"},
}


def _row(action: Action, facts: RunFacts) -> ActivityRow:
    run = facts.runs[int(action.object_id)]
    seq = action.after.get("seq")
    act = facts.steering[run.pk].act(seq) if seq is not None else None
    undo, standing = None, ""
    if action.verb.startswith("steer.") and action.verb != "steer.undo":
        standing = "undone" if act is None else _standing(seq, act, facts.steering[run.pk], facts.waiting[run.pk])
        if not standing and not run.ended:
            undo = seq
    return replace(_plain(action), undo=undo, standing=standing)


def _plain(action: Action) -> ActivityRow:
    payload = action.after
    return ActivityRow(
        at=action.created_at,
        actor=action.actor.get_username() if action.actor else _without_person(payload),
        verb=action.verb,
        text=act_text(action.verb, payload),
        detail=act_detail(action.verb, payload, action.before),
        number=payload.get("number"),
        undo=None,
        standing="",
    )


def _without_person(payload: Mapping[str, object]) -> str:
    return "the judge" if payload.get("by") == "judge" else "a command"


def _standing(seq: int, act: Act, steering: Steering, waiting: set[int]) -> str:
    """Why the act or batch `seq` cannot be undone any more; empty when it can be tried. `act` is the first of it."""
    if act.verb == INJECT:
        return "" if act.node in waiting else "judged"
    if act.verb in (BUDGET, PARAMS):
        return ""
    if steering.without(seq).effects != steering.effects:
        return ""
    return "used up" if steering.uses.get(act.seq) else "replaced"
