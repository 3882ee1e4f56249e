"""Races between kernels of one problem on one device: who has beaten whom. The newer race of a pair counts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from django.db.models import Q

from judge.evaluations.measures import Measure
from judge.evaluations.models import Evaluation, Race
from judge.values import Basis, SpeedCall

Place = tuple[int, int]  # problem, device


@dataclass(frozen=True)
class Races:
    """Decided pairs by place: winner -> loser -> race."""

    won: dict[Place, dict[str, dict[str, Race]]] = field(default_factory=dict)

    def lost_to(self, leader: Evaluation) -> dict[str, Race]:
        """Kernels that this one has beaten, by hash."""
        return self.won.get((leader.problem_id, leader.device_id), {}).get(leader.candidate_hash, {})

    def winner_over(self, leader: Evaluation) -> str:
        """Hash of a kernel that has beaten this one, the clearest win first; empty when none has."""
        pairs = self.won.get((leader.problem_id, leader.device_id), {})
        over = {
            name: losers[leader.candidate_hash] for name, losers in pairs.items() if leader.candidate_hash in losers
        }
        return max(over, key=lambda name: race_measure(over[name], over=leader.candidate_hash).value, default="")


def races_of(places: Collection[Place]) -> Races:
    """The decided pairs of these places. One query."""
    found = Races()
    if not places:
        return found
    asked = reduce(or_, (Q(problem=problem, device=device) for problem, device in places))
    seen = set[tuple[Place, frozenset[str]]]()
    for race in Race.objects.filter(asked).order_by("-id"):
        place, pair = (race.problem_id, race.device_id), frozenset((race.first_hash, race.second_hash))
        if (place, pair) in seen:
            continue
        seen.add((place, pair))
        if race.call in (SpeedCall.FASTER, SpeedCall.SLOWER):
            names = (race.first_hash, race.second_hash)
            winner, loser = names if race.call == SpeedCall.FASTER else names[::-1]
            found.won.setdefault(place, {}).setdefault(winner, {})[loser] = race
    return found


def race_measure(race: Race, *, over: str) -> Measure:
    """The ratio of the other kernel over the one with this hash, whichever of them was timed as the first."""
    basis = Basis(race.basis)
    if race.second_hash == over:
        return Measure(race.ratio, race.low, race.high, race.n, basis)
    return Measure(1 / race.ratio, 1 / race.high, 1 / race.low, race.n, basis)
