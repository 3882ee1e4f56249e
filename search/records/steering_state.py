"""What people's acts amount to now: for the page of a search and of a node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from search.algorithm.params import SearchParams
from search.algorithm.steering import Act, Pin, Steering
from search.records.log import steering_of
from search.records.models import Run


@dataclass(frozen=True)
class InForce:
    """Everything that will bear on the next decisions. `params` are (name, at the start, now) where they differ;
    `params_now` are all of them."""

    pins: tuple[Pin, ...]
    forces: tuple[Act, ...]
    pruned: tuple[int, ...]
    boosts: tuple[tuple[int, float], ...]
    notes: tuple[Act, ...]
    params: tuple[tuple[str, Any, Any], ...]
    params_now: SearchParams

    @property
    def any(self) -> bool:
        return bool(self.pins or self.forces or self.pruned or self.boosts or self.notes or self.params)


@dataclass(frozen=True)
class NodeHands:
    """What people's acts amount to for one node. `closed_by` is the pruned node at or above it, None if it is open."""

    pins: tuple[Pin, ...]
    forces: tuple[Act, ...]
    boost: float
    notes: tuple[Act, ...]
    pruned: bool
    closed_by: int | None

    @property
    def any(self) -> bool:
        return bool(self.pins or self.forces or self.boost or self.notes or self.closed_by is not None)


def in_force(run: Run) -> InForce:
    """The run's steering as of its last event."""
    steering, first = steering_of(run.pk), SearchParams.of_run(run.params)
    current = steering.params(first)
    now = current.to_json()
    return InForce(
        pins=steering.pins,
        forces=steering.forces,
        pruned=tuple(sorted(steering.pruned)),
        boosts=tuple(sorted(steering.boosts.items())),
        notes=steering.notes,
        params=tuple((name, value, now[name]) for name, value in first.to_json().items() if value != now[name]),
        params_now=current,
    )


def params_in_force(run: Run) -> SearchParams:
    """The parameters that the next decision is made with."""
    return steering_of(run.pk).params(SearchParams.of_run(run.params))


def hands_on(steering: Steering, number: int, path: list[int]) -> NodeHands:
    """For the node `number`; `path` leads from it up to the root, itself included."""
    return NodeHands(
        pins=tuple(pin for pin in steering.pins if pin.node == number),
        forces=tuple(force for force in steering.forces if force.node == number),
        boost=steering.boosts.get(number, 0.0),
        notes=tuple(note for note in steering.notes if note.node in path),
        pruned=number in steering.pruned,
        closed_by=next((step for step in path if step in steering.pruned), None),
    )
