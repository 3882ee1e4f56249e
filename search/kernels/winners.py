"""Who leads: per problem and device the fastest kernel that may be a best, of one basis. A fixed number of queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Case, Count, Exists, F, Max, OuterRef, Q, QuerySet, Value, When
from django.db.models.fields.json import KeyTransform

from judge.devices.models import Device
from judge.evaluations.beside import beating
from judge.evaluations.facts import closest_round, sealed_check
from judge.evaluations.measures import Measure
from judge.evaluations.models import AUDITED, CARRIES_MARK, Evaluation, Race
from judge.problems.models import Problem
from judge.values import Audit, Basis, Policy
from search.proposers import BY_HAND
from search.rechecks.queries import Races, race_measure, races_of
from search.records.facts import won_of
from search.records.models import Node, Run

Place = tuple[int, int, str]  # problem, device, and the GPU of a device class: numbers of two GPUs are not compared
GPU = Case(When(device__pooled=True, then=F("gpu")), default=Value(""))
RETIRED, DOUBTED = "retired", "doubt"
MARKED = {"": Q(doubt="", retired=False), RETIRED: Q(doubt="", retired=True), DOUBTED: ~Q(doubt="")}
MOST = 2_000  # rows read to count them
PAGE = 50  # problems
MOST_ROWS = 200
MOST_TIED = 2_000  # rows read to name who ties, over the whole page
LISTED_TIED = 8  # kernels named beside a leader


def checks_of(evaluations: list[int]) -> dict[int, tuple[tuple[float, float] | None, str]]:
    """Tolerance and sealed check of each, without the rest of their reports."""
    rows = Evaluation.objects.filter(pk__in=evaluations).order_by()
    parts = rows.annotate(cases=KeyTransform("cases", "report"), checks=KeyTransform("stages", "report"))
    return {
        pk: (closest_round(cases), sealed_check(checks))
        for pk, cases, checks in parts.values_list("pk", "cases", "checks")
    }


def marked_rows() -> QuerySet[Evaluation]:
    """Evaluations with a mark, by their own index: they are few among many."""
    return Evaluation.objects.filter(CARRIES_MARK)


def left_out(basis: Basis, device: str = "") -> tuple[int, int]:
    """(retired, in doubt): kernels with a speedup of this basis, on a device or on all."""
    nodes = Node.objects.filter(evaluation=OuterRef("pk"), state=Node.State.COMPLETED)
    rows = marked_rows().filter(Exists(nodes), speedup__isnull=False, basis=basis.value).order_by()
    rows = rows.filter(device__name=device) if device else rows
    kernels = set(rows.values_list("problem", "device", "candidate_hash", "doubt")[:MOST])
    return sum(not doubt for *_, doubt in kernels), sum(bool(doubt) for *_, doubt in kernels)


@dataclass(frozen=True)
class Wanted:
    """What a list is asked for. `problem` is looked for in slug and title, `device` is a name, `dtype` as a policy
    writes it or `given` for the source's own."""

    basis: Basis
    problem: str = ""
    device: str = ""
    dtype: str = ""
    unassisted: bool = False
    marked: str = ""  # RETIRED or DOUBTED: those that lead nothing because of their mark, instead of those that may
    after: int = 0  # the id of the last problem of the page before


@dataclass(frozen=True)
class Kernel:
    """One kernel: where its node is, and what is known of it."""

    node: Node
    evaluation: Evaluation
    measure: Measure


@dataclass(frozen=True)
class Beaten:
    """A kernel whose interval reaches the leader's, and that lost to it side by side."""

    kernel: Kernel
    race: Race
    ratio: Measure  # of the leader over it


@dataclass(frozen=True)
class Winner:
    """One problem on one device, or one GPU of a device class. `tied` are other correct kernels whose intervals reach
    the leader's, audited or not, and that it has not beaten in a race: then nobody has won."""

    problem: Problem
    device: Device
    gpu: str  # UUID of the GPU of a device class; empty for other devices
    policy: Policy
    leader: Kernel
    tied: tuple[Kernel, ...]
    tied_count: int
    beaten: tuple[Beaten, ...]  # kernels that would tie, had a race not decided
    tolerance: tuple[float, float] | None  # (error, allowed) of the round closest to its limit
    sealed: str  # what came of the sealed cases; "": none were tried
    beats: bool  # whether the leader is faster than PyTorch; where it is not, nobody has won

    @property
    def is_tied(self) -> bool:
        return self.tied_count > 0

    @property
    def decided(self) -> bool:
        """Whether it has won. A reported figure has no interval, so nobody knows."""
        return self.beats and not self.is_tied and self.leader.measure.basis is not Basis.REPORTED

    @property
    def degenerate(self) -> bool:
        return self.problem.state == Problem.State.DEGENERATE


@dataclass(frozen=True)
class Page:
    """The rows of one page; `after` leads to the next one, None at the end."""

    rows: tuple[Winner, ...]
    after: int | None

    @property
    def counted(self) -> list[Winner]:
        """Rows that count: those of degenerate problems do not."""
        return [row for row in self.rows if not row.degenerate]

    @property
    def won(self) -> int:
        return sum(row.decided for row in self.counted)

    @property
    def tied(self) -> int:
        return sum(row.is_tied and row.beats for row in self.counted)

    @property
    def beaten_by_torch(self) -> int:
        """Rows whose leader is not faster than PyTorch."""
        return sum(not row.beats for row in self.counted)

    @property
    def degenerate(self) -> int:
        return len(self.rows) - len(self.counted)


def winners(wanted: Wanted) -> Page:
    """One page, by problem title. Problems that adapt runs composed are in no list."""
    problems = list(_problems(wanted)[: PAGE + 1])
    tops = _tops(wanted, problems[:PAGE])
    shown: list[Problem] = []
    count = 0
    for problem in problems[:PAGE]:
        count += len(tops[problem.pk])
        if shown and count > MOST_ROWS:
            break
        shown.append(problem)
    found = _of_problems(wanted, shown, tops)
    rows = [row for problem in shown for row in found.get(problem.pk, ())]
    return Page(tuple(rows), shown[-1].pk if len(shown) < len(problems) else None)


def all_winners(wanted: Wanted, most: int) -> Iterator[Winner]:
    """Page after page, at most about `most` rows."""
    page = winners(wanted)
    count = 0
    while True:
        yield from page.rows
        count += len(page.rows)
        if page.after is None or count >= most:
            return
        page = winners(replace(wanted, after=page.after))


def _valid(wanted: Wanted) -> QuerySet[Evaluation]:
    """Evaluations that may be a best, of a kernel that a search found."""
    return _timed(wanted).filter(AUDITED)


def _timed(wanted: Wanted) -> QuerySet[Evaluation]:
    """Every correct kernel with a speedup, audited or not: who reaches the leader leaves the race open."""
    nodes = Node.objects.filter(evaluation=OuterRef("pk"), state=Node.State.COMPLETED)
    if wanted.unassisted:
        nodes = nodes.filter(touched=False).exclude(run__proposer__in=BY_HAND)
    rows = Evaluation.objects.filter(Exists(nodes), speedup__isnull=False, basis=wanted.basis.value)
    rows = rows.annotate(card=GPU).filter(MARKED[wanted.marked]).exclude(audit=Audit.FAILED.value)
    return rows.filter(device__name=wanted.device) if wanted.device else rows


def _problems(wanted: Wanted) -> QuerySet[Problem]:
    rows = Problem.objects.exclude(origin=Problem.Origin.SYNTHETIC).defer("source", "admission")
    rows = rows.filter(Exists(_valid(wanted).filter(problem=OuterRef("pk")))).order_by("title", "pk")
    for word in wanted.problem.split():
        rows = rows.filter(Q(title__icontains=word) | Q(slug__icontains=word))
    if wanted.dtype:
        rows = rows.filter(~Q(policy__has_key="dtype") if wanted.dtype == "given" else Q(policy__dtype=wanted.dtype))
    last = Problem.objects.filter(pk=wanted.after).values_list("title", flat=True).first() if wanted.after else None
    if last is not None:
        rows = rows.filter(Q(title__gt=last) | Q(title=last, pk__gt=wanted.after))
    return rows


def _tops(wanted: Wanted, problems: Sequence[Problem]) -> dict[int, list[tuple[int, str, float]]]:
    """By problem the devices that have a kernel, with the GPU of a class, each with the highest speedup."""
    valid = _valid(wanted).filter(problem__in=problems).order_by()
    found: dict[int, list[tuple[int, str, float]]] = defaultdict(list)
    for problem, device, gpu, top in valid.values_list("problem", "device", GPU).annotate(top=Max("speedup")):
        found[problem].append((device, gpu, top))
    return found


def _of_problems(
    wanted: Wanted, problems: Sequence[Problem], tops: dict[int, list[tuple[int, str, float]]]
) -> dict[int, list[Winner]]:
    places = [
        Q(problem=problem, device=device, card=gpu, speedup=top)
        for problem in problems
        for device, gpu, top in tops[problem.pk][:MOST_ROWS]
    ]
    if not places:
        return {}
    leaders: dict[Place, Evaluation] = {}
    for row in _slim(_valid(wanted)).filter(_any(places)).order_by("pk"):
        leaders.setdefault(_place(row), row)
    races = races_of({(problem, device) for problem, device, _ in leaders})
    _lead_by_win(wanted, leaders)
    _lead_by_race(wanted, leaders, races)
    rivals = _slim(_timed(wanted)).filter(_any(map(_reaches, leaders.values())))
    groups = rivals.order_by().values_list("problem", "device", GPU)
    kinds = groups.annotate(kinds=Count("candidate_hash", distinct=True))
    counts = {(problem, device, gpu): kinds - 1 for problem, device, gpu, kinds in kinds}  # the leader reaches itself
    tied: dict[Place, dict[str, Evaluation]] = defaultdict(dict)
    for row in rivals.order_by("-speedup", "pk")[:MOST_TIED]:
        leader = leaders[_place(row)]
        if row.candidate_hash != leader.candidate_hash:
            tied[_place(row)].setdefault(row.candidate_hash, row)
    lost = {place: races.lost_to(leader) for place, leader in leaders.items()}
    listed = {
        place: [row for row in rows.values() if row.candidate_hash not in lost[place]][:LISTED_TIED]
        for place, rows in tied.items()
    }
    beaten = {
        place: [row for row in rows.values() if row.candidate_hash in lost[place]] for place, rows in tied.items()
    }
    named = [rows[:LISTED_TIED] for rows in beaten.values()]
    everyone = [*leaders.values(), *(row for rows in (*listed.values(), *named) for row in rows)]
    nodes = _nodes([row.pk for row in everyone], unassisted=wanted.unassisted)
    ids = [row.pk for row in leaders.values()]
    facts, won = checks_of(ids), won_of(ids)
    by_id = {problem.pk: problem for problem in problems}
    found: dict[int, list[Winner]] = defaultdict(list)
    for place, leader in sorted(leaders.items(), key=lambda item: (item[0][0], item[1].device.name, item[0][2])):
        kernel = _kernel(leader, nodes)
        if kernel is None:
            continue
        others = [one for row in listed.get(place, ()) if (one := _kernel(row, nodes)) is not None]
        problem = by_id[place[0]]
        tolerance, sealed = facts.get(leader.pk, (None, ""))
        found[problem.pk].append(
            Winner(
                problem=problem,
                device=leader.device,
                gpu=place[2],
                policy=Policy.from_json(problem.policy),
                leader=kernel,
                tied=tuple(others),
                tied_count=counts.get(place, 0) - len(beaten.get(place, ())),
                beaten=tuple(
                    Beaten(one, race, race_measure(race, over=row.candidate_hash))
                    for row in beaten.get(place, ())[:LISTED_TIED]
                    if (one := _kernel(row, nodes)) and (race := lost[place][row.candidate_hash])
                ),
                tolerance=tolerance,
                sealed=sealed,
                beats=leader.pk in won if not wanted.marked else True,
            )
        )
    return found


def _lead_by_win(wanted: Wanted, leaders: dict[Place, Evaluation]) -> None:
    """Where the one with the highest number did not beat PyTorch and another that may lead did, that one leads, as in
    `search.algorithm.ranking.standing`. Two queries, or three."""
    won = won_of([row.pk for row in leaders.values()])
    lost = [row for row in leaders.values() if row.pk not in won]
    if not lost or wanted.marked:
        return
    places = _any(Q(problem=row.problem_id, device=row.device_id, card=row.card) for row in lost)  # type: ignore[attr-defined]
    others = beating(_valid(wanted).filter(places))
    for row in _slim(_valid(wanted)).filter(pk__in=others).order_by("speedup", "-pk") if others else ():
        leaders[_place(row)] = row


def _lead_by_race(wanted: Wanted, leaders: dict[Place, Evaluation], races: Races) -> None:
    """Where the one with the highest number lost to another that may lead, that one leads. Of a device class, a GPU
    whose leader lost to that of another GPU leads nothing. One query."""
    winners = {place: races.winner_over(leader) for place, leader in leaders.items()}
    asked = [Q(problem=p, device=d, card=gpu, candidate_hash=name) for (p, d, gpu), name in winners.items() if name]
    if asked:
        for row in _slim(_valid(wanted)).filter(_any(asked)).order_by("speedup", "-pk"):
            leaders[_place(row)] = row
    for place, leader in list(leaders.items()):
        others = (row for other, row in leaders.items() if place[2] and other[:2] == place[:2])
        if races.winner_over(leader) in {row.candidate_hash for row in others}:
            del leaders[place]


def _slim(rows: QuerySet[Evaluation]) -> QuerySet[Evaluation]:
    return rows.select_related("device").defer("source", "report", "message")


def _place(row: Any) -> Place:
    """Of an evaluation that `_timed` gave."""
    return row.problem_id, row.device_id, row.card


def _reaches(leader: Any) -> Q:
    """Kernels whose interval reaches the leader's; without intervals, those of the same speedup."""
    place = Q(problem=leader.problem_id, device=leader.device_id, card=leader.card)
    if leader.speedup_low is None or leader.basis == Basis.REPORTED:
        return place & Q(speedup=leader.speedup)
    return place & Q(speedup_high__gte=leader.speedup_low)


def _any(parts: Iterable[Q]) -> Q:
    return reduce(or_, parts)


def _nodes(evaluations: list[int], *, unassisted: bool) -> dict[int, Node]:
    """Of each evaluation the first node that took it, one that no person touched where only such count."""
    rows = Node.objects.filter(evaluation__in=evaluations, state=Node.State.COMPLETED).select_related("run")
    if unassisted:
        rows = rows.filter(touched=False).exclude(run__proposer__in=BY_HAND)
    found: dict[int, Node] = {}
    for node in rows.defer("source", "sketch", "why", "message").order_by("pk"):
        found.setdefault(node.evaluation_id or 0, node)
    return found


def _kernel(evaluation: Evaluation, nodes: dict[int, Node]) -> Kernel | None:
    measure, node = Measure.of(evaluation), nodes.get(evaluation.pk)
    return None if measure is None or node is None else Kernel(node, evaluation, measure)


def running_searches(most: int = 5) -> list[Run]:
    """Searches that may bring a kernel soon, the newest first."""
    busy = Run.objects.filter(state__in=(Run.State.RUNNING, Run.State.STOPPING)).exclude(origin=Run.Origin.ADAPT)
    return list(busy.select_related("problem").defer("problem__source", "problem__admission").order_by("-pk")[:most])
