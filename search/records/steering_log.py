"""Reads a run's steering out of its rows: the acts of its log, and the reservations that were made for them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from search.algorithm.steering import Steering
from search.records.events import STEERING
from search.records.models import Node, Run, RunEvent


def steering_of(run_id: int) -> Steering:
    """As of the run's last event. Exact for a decision only while the run's row is locked. One query without acts."""
    return steerings_of([run_id])[run_id]


def steerings_of(run_ids: Collection[int]) -> dict[int, Steering]:
    """The same for many runs, in two queries."""
    acts: dict[int, list[tuple[int, str, Any]]] = {run_id: [] for run_id in run_ids}
    events = RunEvent.objects.filter(run__in=acts, kind__in=STEERING).order_by("run", "seq")
    for run_id, seq, kind, payload in events.values_list("run", "seq", "kind", "payload"):
        acts[run_id].append((seq, STEERING[kind], payload))
    folded = {run_id: Steering.fold(found) for run_id, found in acts.items()}
    steered = [run_id for run_id, found in acts.items() if found]
    for run_id, number, uses in _steered(steered) if steered else ():
        folded[run_id] = folded[run_id].used(number, uses_in(uses))
    return folded


def uses_in(steered: dict[str, object]) -> tuple[int, ...]:
    """The pin and the forced step in `Node.steered` or in the payload of node.reserved."""
    return tuple(seq for name in ("pin", "force") if isinstance(seq := steered.get(name), int))


def _steered(run_ids: Collection[int]) -> list[tuple[int, int, dict[str, object]]]:
    nodes = Node.objects.filter(run__in=run_ids, touched=True).exclude(state=Node.State.CANCELLED)
    return list(nodes.order_by("run", "number").values_list("run", "number", "steered"))


def notes_at(run: Run, steering: Steering, number: int) -> tuple[str, ...]:
    """The words of the notes in force on this node itself, the oldest first."""
    seqs = [act.seq for act in steering.notes if act.node == number]
    return _texts(run.pk, seqs) if seqs else ()


def notes_of(node: Node) -> tuple[str, ...]:
    """The notes that stood when the node was reserved, the oldest first."""
    seqs = node.steered.get("notes", ())
    return _texts(node.run_id, seqs) if seqs else ()


def _texts(run_id: int, seqs: Collection[int]) -> tuple[str, ...]:
    found = RunEvent.objects.filter(run_id=run_id, seq__in=seqs, kind="steer.note").order_by("seq")
    return tuple(payload["text"] for payload in found.values_list("payload", flat=True))
