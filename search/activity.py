"""What people did to a search: the audit rows in words, newest first, with what can be undone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.urls import reverse

from adaexplore_site.models import Action
from search.act_words import act_detail, act_text
from search.algorithm.steering import BUDGET, INJECT, PARAMS, Act, Steering
from search.history import history_of, history_undone
from search.models import Node, Run
from search.services.budget_undo import budget_undone
from search.steering_log import steering_of

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
    steering = steering_of(run.pk)
    waiting = set(run.nodes.filter(state__in=Node.IN_FLIGHT, touched=True).values_list("number", flat=True))
    rows = [_row(action, run, steering, waiting) for action in actions[:MOST]]
    return (_with_inverses(rows, list(actions[:MOST]), run) + _history(run))[:MOST]


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


def _with_inverses(rows: list[ActivityRow], actions: list[Action], run: Run) -> list[ActivityRow]:
    """What takes back acts that are not in the fold. Of acts on the state and on concurrency only the newest counts."""
    undone, newest = budget_undone(run.pk), set[str]()
    live = dict(Run.objects.filter(branched_from__run=run).exclude(state__in=Run.ENDED).values_list("pk", "state"))
    steer, found = reverse("run-steer", args=[run.pk]), list(rows)
    for place, action in enumerate(actions):
        verb, inverse, standing = action.verb, None, rows[place].standing
        group = "state" if verb in _STATE else verb
        if group in newest:
            continue
        if verb in _STATE:
            name = _STATE[verb].get(run.state, "")
            inverse = Inverse(name.capitalize(), reverse(f"run-{name}", args=[run.pk])) if name else None
            newest.add(group)
        elif verb == "run.concurrency" and not run.ended:
            inverse = Inverse("Undo", steer, {"act": "concurrency", "concurrency": str(action.after["before"])})
            newest.add(group)
        elif verb == "run.budget":
            standing = "undone" if action.pk in undone else ""
            if not standing and not run.ended:
                inverse = Inverse("Undo", steer, {"act": "limits-undo", "action": str(action.pk)})
        elif verb == "run.branch" and action.after.get("run") in live:
            branch = action.after["run"]
            inverse = Inverse(f"Stop #{branch}", reverse("run-stop", args=[branch]))
        found[place] = replace(rows[place], inverse=inverse, standing=standing)
    return found


_STATE: dict[str, dict[str, str]] = {
    "run.pause": {Run.State.PAUSED: "resume"},
    "run.resume": {Run.State.RUNNING: "pause"},
    "run.stop": {Run.State.STOPPING: "resume", Run.State.STOPPED: "resume"},
    "run.kill": {Run.State.STOPPED: "resume"},
}


def _row(action: Action, run: Run, steering: Steering, waiting: set[int]) -> ActivityRow:
    payload = action.after
    seq = payload.get("seq")
    act = steering.act(seq) if seq is not None else None
    undo, standing = None, ""
    if action.verb.startswith("steer.") and action.verb != "steer.undo":
        standing = "undone" if act is None else _standing(act, steering, waiting)
        if not standing and not run.ended:
            undo = seq
    return replace(_plain(action), undo=undo, standing=standing)


def _plain(action: Action) -> ActivityRow:
    payload = action.after
    return ActivityRow(
        at=action.created_at,
        actor=action.actor.get_username() if action.actor else "a command",
        verb=action.verb,
        text=act_text(action.verb, payload),
        detail=act_detail(action.verb, payload, action.before),
        number=payload.get("number"),
        undo=None,
        standing="",
    )


def _standing(act: Act, steering: Steering, waiting: set[int]) -> str:
    """Why an act cannot be undone any more; empty when it can be tried."""
    if act.verb == INJECT:
        return "" if act.node in waiting else "judged"
    if act.verb in (BUDGET, PARAMS):
        return ""
    if steering.without(act.seq).effects != steering.effects:
        return ""
    return "used up" if steering.uses.get(act.seq) else "replaced"
