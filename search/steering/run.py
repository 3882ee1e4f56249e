"""Acts on a running search as a whole: change its parameters, undo an earlier act."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from adaexplore_site.core.audit import ActionRefused
from search.algorithm.params import SearchParams
from search.algorithm.steering import BUDGET, FORCE, INJECT, PARAMS, PIN, Act, Steering
from search.engine.budgets import budget_own
from search.engine.completion import node_cancel, run_follow
from search.records.models import Node, Run
from search.records.queue import FollowUp
from search.runs.services import MAX_STEPS
from search.steering.desk import Desk, Done, steer

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


def steer_params(
    *, run: Run, changes: Mapping[str, Any], user: AbstractBaseUser | None, key: str | None = None
) -> list[FollowUp]:
    """Decide with other parameters from now on; `changes` names only what changes."""

    def act(desk: Desk) -> Done | None:
        first = SearchParams.from_json(desk.run.params)
        before = desk.steering.params(first).to_json()
        try:
            after = SearchParams.from_json(before | dict(changes)).to_json()
        except ValueError as error:
            raise ActionRefused(str(error)) from error
        changed = {name: value for name, value in after.items() if value != before[name]}
        if not changed:
            return None
        return Done({"params": changed}, before={"params": {name: before[name] for name in changed}})

    return steer(run=run, verb="steer.params", user=user, key=key, act=act)


def advance(run: Run) -> list[FollowUp]:
    """Ask for the next steps, unless the run is paused."""
    return [FollowUp("advance", run.pk)] if run.state == Run.State.RUNNING else []


def steps_add(desk: Desk, steps: int) -> None:
    """Widen the budget. Raises ActionRefused when that is too much."""
    budget_own(desk.run)
    if desk.run.steps + steps > MAX_STEPS:
        raise ActionRefused(f"A search has at most {MAX_STEPS} steps; this one has {desk.run.steps}.")
    _steps_set(desk.run, desk.run.steps + steps)


def _steps_set(run: Run, steps: int) -> None:
    run.steps = steps
    run.save(update_fields=["steps"])


def steer_undo(*, run: Run, seq: int, user: AbstractBaseUser | None, key: str | None = None) -> list[FollowUp]:
    """Take back the act that is number `seq` in the log, for everything decided from now on.

    Raises ActionRefused when it has been used up, when later acts have replaced it, or when it was undone before.
    """

    def undo(desk: Desk) -> Done:
        act = desk.steering.act(seq)
        if act is None:
            raise ActionRefused("There is no such act to undo, or it was undone before.")
        if act.verb == INJECT:
            _withdraw(desk, act)
        elif act.verb == BUDGET:  # only logs from before `run_budget_add` have it
            _steps_take(desk, act.steps)
        else:
            _must_differ(desk, act, seq)
        many = act.batch == seq
        verb = f"steer.{'bulk' if many else act.verb}"
        payload: dict[str, Any] = {"act": seq, "verb": verb, "total": desk.run.steps}
        where = {} if many or act.node is None else {"number": act.node}
        return Done(payload | where, then=lambda: run_follow(run=desk.run, now=desk.now))

    return steer(run=run, verb="steer.undo", user=user, key=key, act=undo)


def _must_differ(desk: Desk, act: Act, seq: int) -> None:
    """Refuse to undo what makes no difference any more. `seq` names the act, or the batch that it belongs to."""
    before, after = desk.steering, desk.steering.without(seq)
    if act.verb == PARAMS:
        _params_differ(desk.run, before, after)
    elif after.effects == before.effects:
        raise ActionRefused(_why_nothing_left(before, act))


def _steps_take(desk: Desk, steps: int) -> None:
    left = desk.run.steps - steps
    reserved = sum(row.number > 0 and row.state != Node.State.CANCELLED for row in desk.rows)
    if reserved > left:
        raise ActionRefused(
            f"{reserved} steps are judged or in flight; without the {steps} added there would be {left}. "
            "They are used up and cannot be taken back."
        )
    _steps_set(desk.run, left)


def _withdraw(desk: Desk, act: Act) -> None:
    """Withdraw a kernel written by hand, and the step that it brought with it."""
    node = Node.objects.get(run=desk.run, number=act.node or 0)
    if not node_cancel(run=desk.run, node=node, why="Its injection was undone."):
        raise ActionRefused(f"Node {act.node} has been judged: its verdict stays. Prune it instead.")
    _steps_set(desk.run, desk.run.steps - act.steps)


def _params_differ(run: Run, before: Steering, after: Steering) -> None:
    first = SearchParams.of_run(run.params)
    try:
        if after.params(first) == before.params(first):
            raise ActionRefused("Later changes have replaced these parameters: nothing is left to undo.")
    except ValueError as error:
        raise ActionRefused(f"Without this change the parameters do not agree: {error}") from error


def _why_nothing_left(steering: Steering, act: Act) -> str:
    used = steering.uses.get(act.seq, ())
    if act.verb == PIN and len(used) >= act.quota:
        return f"All {act.quota} selections of this pin have been made: nothing is left to undo."
    if act.verb == FORCE and used:
        return f"Node {used[0]} was reserved for it: nothing is left to undo."
    return "Later acts have replaced this one: nothing is left to undo."
