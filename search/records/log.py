"""The one writer of the run's event log, and what its steering comes to."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from adaexplore_site.core.outbox import BEST, BUDGET, FAILED, FINISHED, webhook_tell
from judge.evaluations.measures import Measure, beside_columns
from judge.values import Basis
from search.algorithm.params import SearchParams
from search.algorithm.steering import Pin, Steering, SteeringAction
from search.records import queue
from search.records.events import STEERING, Event, NodeBest, NoteAdded, RunEnded, uses_in
from search.records.models import Node, Run, RunEvent

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


PAYLOAD_BYTES = 2048
SPENT = frozenset({"evaluations", "device_s", "tokens", "usd", "wall_s"})  # limits, not goals or steps


def event_write(*, run: Run, event: Event, actor: AbstractBaseUser | None = None) -> RunEvent:
    """Append one event with the run's next number, inside the caller's transaction; hint at it after commit.

    The counter's UPDATE holds the row until commit, so numbers have no gaps and their order is commit order.
    Raises ValueError for an event over 2 kB, TransactionManagementError outside a transaction.
    """
    payload = event.to_json()
    if len(json.dumps(payload)) > PAYLOAD_BYTES:
        raise ValueError(f"the payload of {event.name} is over {PAYLOAD_BYTES} bytes")
    if not transaction.get_connection().in_atomic_block:
        raise transaction.TransactionManagementError("event_write belongs in the transaction of the change")
    Run.objects.filter(pk=run.pk).update(event_seq=F("event_seq") + 1)
    run.event_seq = Run.objects.values_list("event_seq", flat=True).get(pk=run.pk)
    row = RunEvent.objects.create(run=run, seq=run.event_seq, kind=event.name, payload=payload, actor=actor)  # type: ignore[misc]
    _announce(run, event)
    transaction.on_commit(partial(queue.publish, run.pk, run.event_seq))
    return row


def _announce(run: Run, event: Event) -> None:
    """Write what an event means for webhooks. Most mean nothing, and searches of an adapt run announce nothing."""
    if run.origin == Run.Origin.ADAPT:
        return
    if isinstance(event, NodeBest) and not event.because and event.is_win:
        best = {name: getattr(event, name) for name in ("number", "speedup", "low", "high", "n")}
        best["basis"] = "MODELLED" if event.basis == Basis.MODELLED else event.basis
        if (measure := Measure.of(event)) is not None:
            best |= beside_columns(measure)
        _webhook(BEST, run, {"best": best})
    elif isinstance(event, RunEnded):
        ended = {"reason": event.reason, "told": event.told, "best_node": event.won}
        _webhook(FAILED if event.state == Run.State.FAILED else FINISHED, run, ended)
        if event.limit in SPENT:
            _webhook(BUDGET, run, {**ended, "limit": event.limit})


def _webhook(event: str, run: Run, more: dict[str, Any]) -> None:
    search = {
        "id": run.pk,
        "title": run.title,
        "problem": run.problem.slug,
        "device": run.device.name,
        "state": run.state,
        "page": f"/s/{run.pk}/",
        "api": f"/api/v1/searches/{run.pk}",
    }
    webhook_tell(event=event, body={"search": search, **more}, now=timezone.now())


def steering_of(run_id: int) -> Steering:
    """As of the run's last event. Exact for a decision only while the run's row is locked. One query where none is."""
    return steerings_of([run_id])[run_id]


def steerings_of(run_ids: Collection[int]) -> dict[int, Steering]:
    """The same for many runs, in two queries."""
    folded = {run_id: Steering() for run_id in run_ids}
    for row in RunEvent.objects.filter(run__in=folded, kind__in=STEERING).order_by("run", "seq"):
        folded[row.run_id] = row.steering(folded[row.run_id])
    steered = [run_id for run_id, steering in folded.items() if steering.actions]
    nodes = Node.objects.filter(run__in=steered, touched=True).exclude(state=Node.State.CANCELLED)
    rows = nodes.order_by("run", "number").values_list("run", "number", "steered") if steered else ()
    for run_id, number, uses in rows:
        folded[run_id] = folded[run_id].used(number, uses_in(uses))
    return folded


def notes_at(run: Run, steering: Steering, number: int) -> tuple[str, ...]:
    """The texts of the notes in force on this node itself, the oldest first."""
    return _notes(run.pk, [act.seq for act in steering.notes if act.node == number])


def notes_of(node: Node) -> tuple[str, ...]:
    """The notes that stood when the node was reserved, the oldest first."""
    return _notes(node.run_id, node.steered.get("notes", ()))


def _notes(run_id: int, seqs: Collection[int]) -> tuple[str, ...]:
    rows = RunEvent.objects.filter(run_id=run_id, seq__in=seqs).order_by("seq") if seqs else ()
    return tuple(row.said.text for row in rows if isinstance(row.said, NoteAdded))


@dataclass(frozen=True)
class InForce:
    """What people asked that bears on the next decisions, of a search or of one of its nodes.

    `params` are (name, at the start, now) where they differ. `closed_by` is the pruned node at or above the node.
    """

    pins: tuple[Pin, ...]
    forces: tuple[SteeringAction, ...]
    pruned: tuple[int, ...]
    boosts: tuple[tuple[int, float], ...]
    notes: tuple[SteeringAction, ...]
    params: tuple[tuple[str, Any, Any], ...] = ()
    closed_by: int | None = None

    @property
    def any(self) -> bool:
        found = (self.pins, self.forces, self.pruned, self.boosts, self.notes, self.params)
        return any(found) or self.closed_by is not None

    @property
    def boost(self) -> float:
        """Of the node."""
        return self.boosts[0][1] if self.boosts else 0.0


def in_force(run: Run) -> InForce:
    """The run's steering as of its last event."""
    steering, first = steering_of(run.pk), SearchParams.of_run(run.params)
    now = steering.params(first).to_json()
    return InForce(
        pins=steering.pins,
        forces=steering.forces,
        pruned=tuple(sorted(steering.pruned)),
        boosts=tuple(sorted(steering.boosts.items())),
        notes=steering.notes,
        params=tuple((name, value, now[name]) for name, value in first.to_json().items() if value != now[name]),
    )


def params_in_force(run: Run) -> SearchParams:
    """The parameters that the next decision is made with."""
    return steering_of(run.pk).params(SearchParams.of_run(run.params))


def node_steering(steering: Steering, number: int, path: list[int]) -> InForce:
    """For the node `number`; `path` leads from it up to the root, itself included."""
    return InForce(
        pins=tuple(pin for pin in steering.pins if pin.node == number),
        forces=tuple(force for force in steering.forces if force.node == number),
        pruned=tuple(steering.pruned & {number}),
        boosts=tuple((node, boost) for node, boost in steering.boosts.items() if node == number),
        notes=tuple(note for note in steering.notes if note.node in path),
        closed_by=next((step for step in path if step in steering.pruned), None),
    )
