"""Reads a run's steering out of its rows: the acts of its log, and the reservations that were made for them."""

from __future__ import annotations

from search.algorithm.steering import Steering
from search.events import STEERING
from search.models import Node, RunEvent


def steering_of(run_id: int) -> Steering:
    """As of the run's last event. Exact for a decision only while the run's row is locked. One query without acts."""
    events = RunEvent.objects.filter(run_id=run_id, kind__in=STEERING).order_by("seq")
    acts = [(seq, STEERING[kind], payload) for seq, kind, payload in events.values_list("seq", "kind", "payload")]
    steering = Steering.fold(acts)
    if acts:
        for number, steered in _steered(run_id):
            steering = steering.used(number, uses_in(steered))
    return steering


def uses_in(steered: dict[str, object]) -> tuple[int, ...]:
    """The pin and the forced step in `Node.steered` or in the payload of node.reserved."""
    return tuple(seq for name in ("pin", "force") if isinstance(seq := steered.get(name), int))


def _steered(run_id: int) -> list[tuple[int, dict[str, object]]]:
    nodes = Node.objects.filter(run_id=run_id, touched=True).exclude(state=Node.State.CANCELLED)
    return list(nodes.order_by("number").values_list("number", "steered"))


def notes_of(node: Node) -> tuple[str, ...]:
    """The notes that stood when the node was reserved, the oldest first."""
    seqs = node.steered.get("notes", ())
    if not seqs:
        return ()
    found = RunEvent.objects.filter(run_id=node.run_id, seq__in=seqs, kind="steer.note").order_by("seq")
    return tuple(payload["text"] for payload in found.values_list("payload", flat=True))
