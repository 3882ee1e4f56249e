"""What came of kernels that were judged once more: read for pages, the old verdict beside the new one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy as _

from judge.evaluations.facts import CALLS
from judge.evaluations.measures import Measure
from judge.evaluations.models import Evaluation, Race
from judge.values import Basis, SpeedCall, Verdict
from search.rechecks.models import Recheck
from search.records.models import Node

Place = tuple[int, int]  # problem, device
SHOWN = 20
TITLES = {
    Recheck.Kind.VERIFY: _("Judged again"),
    Recheck.Kind.DISPUTE: _("Disputed"),
    Recheck.Kind.RACE: _("Measured as a pair"),
}
_OTHER_WAY = {SpeedCall.FASTER: SpeedCall.SLOWER, SpeedCall.SLOWER: SpeedCall.FASTER}


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


@dataclass(frozen=True)
class Rechecked:
    """One request with both verdicts. `ratio` is the node's kernel over its rival's, where they were raced."""

    row: Recheck
    title: str
    differs: bool  # one verdict is a pass, the other is none
    apart: bool  # both are, and their intervals do not reach each other
    ratio: Measure | None = None
    call: str = ""
    text: str = ""

    @property
    def style(self) -> str:
        """Shape of its state."""
        return {"done": "suspect" if self.differs else "ok"}.get(self.row.state, self.row.state)


def rechecks_of(node: Node) -> list[Rechecked]:
    """Of one node, also where it is the rival; newest first."""
    return [rechecked(row) for row in _rows().filter(Q(node=node) | Q(rival=node)).order_by("-pk")[:SHOWN]]


def last_rechecks(nodes: Collection[int]) -> dict[int, Rechecked]:
    """Of each node the newest one that is no race. One query."""
    rows = _rows().filter(node__in=nodes).exclude(kind=Recheck.Kind.RACE).order_by("pk")
    return {row.node_id: rechecked(row) for row in rows}


def races_between(nodes: Collection[int]) -> list[Rechecked]:
    """Races of any two of these nodes, newest first. One query."""
    rows = _rows().filter(kind=Recheck.Kind.RACE, node__in=nodes, rival__in=nodes)
    return [rechecked(row) for row in rows.order_by("-pk")[:SHOWN]]


def _rows() -> QuerySet[Recheck]:
    heavy = [f"{name}__{field}" for name in ("before", "evaluation") for field in ("source", "report")]
    texts = [f"{name}__source" for name in ("node", "rival")]
    rows = Recheck.objects.select_related("node", "rival", "before", "evaluation", "race", "asked_by")
    return rows.defer(*heavy, *texts)


def rechecked(row: Recheck) -> Rechecked:
    """One request with its texts."""
    fresh, before, race = row.evaluation, row.before, row.race
    differs = fresh is not None and (fresh.verdict == Verdict.PASS) != (before.verdict == Verdict.PASS)
    old, new = Measure.of(before), Measure.of(fresh)
    ends = (old and old.low, old and old.high, new and new.low, new and new.high)
    apart = all(ends) and (ends[0] > ends[3] or ends[2] > ends[1])  # type: ignore[operator]
    title = str(TITLES[Recheck.Kind(row.kind)])
    if race is None or fresh is None:
        return Rechecked(row, title, differs, bool(apart))
    mine = race.first_hash == fresh.candidate_hash
    ratio = race_measure(race, over=race.second_hash if mine else race.first_hash)
    call = SpeedCall(race.call)
    call = call if mine else _OTHER_WAY.get(call, call)
    return Rechecked(row, title, differs, bool(apart), ratio, call.value.upper(), str(CALLS[call]))
