"""The one way to steer a search: under its row lock, as an event in its log, with an audit row that Undo can find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from adaexplore_site.actions.action import Call
from adaexplore_site.core.audit import ActionRefused, action_done
from search.algorithm.params import SearchParams
from search.algorithm.steering import Steering
from search.algorithm.tree import Branch, Tree
from search.engine.budgets import budget_own
from search.ledger.limits import MAX_STEPS
from search.records.events import EVENTS
from search.records.facts import NodeRow, node_rows, tree_of
from search.records.kinds import action_record
from search.records.log import event_write, steering_of
from search.records.models import Run
from search.records.queue import FollowUp
from search.runs.services import pair_check, run_held

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


@dataclass(frozen=True)
class Change:
    """What an action writes: the event's payload, what held before it, and what follows once it is in the log.

    `parts` are (kind, payload) of events that go on with the first one: they get its number as `of`. `said` is what the
    audit keeps in place of the payload.
    """

    payload: dict[str, Any]
    before: dict[str, Any] = field(default_factory=dict)
    then: Callable[[], list[FollowUp]] = list
    parts: tuple[tuple[str, dict[str, Any]], ...] = ()
    said: dict[str, Any] | None = None


class Snapshot:
    """A search with its tree and its steering as of now; locked while it is steered."""

    def __init__(self, run: Run, user: AbstractBaseUser | None = None) -> None:
        self.run, self.user = run, user
        self.now = timezone.now()
        self.rows: list[NodeRow] = node_rows(run.pk)
        self.steering: Steering = steering_of(run.pk)
        self.tree: Tree = tree_of(self.rows, self.steering.params(SearchParams.of_run(run.params)))
        self.steering.mark(self.tree)

    def branch(self, number: int) -> Branch:
        """The node of this number. Raises ActionRefused when there is none, or it was withdrawn."""
        branch = self.tree.branches.get(number)
        if branch is None:
            raise ActionRefused(
                _("Node %(number)s is not part of this search, or it was withdrawn. Choose another node.")
                % {"number": number}
            )
        return branch

    def open_branch(self, number: int) -> Branch:
        """The same, refused when it is pruned."""
        branch = self.branch(number)
        if branch.closed:
            above = next(step.number for step in branch.up() if step.number in self.steering.pruned)
            if above == number:
                text = _("Node %(number)s is closed to the search. It was pruned: restore it first.")
            else:
                text = _(
                    "Node %(number)s is closed to the search. Node %(above)s above it was pruned: restore it first."
                )
            raise ActionRefused(text % {"number": number, "above": above})
        return branch

    def event(self, kind: str, payload: dict[str, Any]) -> int:
        """Write one event of the action; its place in the log."""
        return event_write(run=self.run, event=EVENTS[kind](**payload), actor=self.user).seq

    def steps_add(self, steps: int) -> None:
        """Widen the budget. Raises ActionRefused when that is too much."""
        budget_own(self.run)
        if self.run.steps + steps > MAX_STEPS:
            raise ActionRefused(
                _("A search has at most %(max_steps)s steps; this one has %(steps)s.")
                % {"max_steps": MAX_STEPS, "steps": self.run.steps}
            )
        self.steps_set(self.run.steps + steps)

    def steps_set(self, steps: int) -> None:
        """Write the budget."""
        self.run.steps = steps
        self.run.save(update_fields=["steps"])


def steer(*, run: Run, verb: str, call: Call, change: Callable[[Snapshot], Change | None]) -> list[FollowUp]:
    """Do one action and log it; follow-up tasks for the caller to send. The same key again does nothing, nor does a
    `change` that returns None: what it asks for is so already.

    Raises ActionRefused, nothing changed, when the search has ended or is stopping, or when `change` refuses.
    """
    with transaction.atomic():
        locked = run_held(run)
        if action_done(key=call.key, verb=verb):
            return []
        if locked.ended or locked.state == Run.State.STOPPING:
            if locked.ended:
                text = _(
                    "This search has already ended (%(state)s) and cannot be steered. "
                    "Branch a new search from a node instead."
                )
            else:
                text = _("This search is stopping and cannot be steered. Branch a new search from a node instead.")
            raise ActionRefused(text % {"state": locked.state})
        pair_check(run=locked, verb=verb)
        now = Snapshot(locked, call.user)
        done = change(now)
        if done is None:
            return []
        seq = now.event(verb, done.payload)
        for kind, payload in done.parts:
            now.event(kind, {**payload, "of": seq})
        after = {**(done.payload if done.said is None else done.said), "seq": seq}
        action_record(verb=verb, run=locked, **call.who, before=done.before, after=after)
        return done.then()
