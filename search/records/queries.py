"""Reads of the search: the tree with its statistics, summaries for pages and lists, the event log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from django.db.models import Count, Max, Min
from django.utils import timezone

from judge.evaluations.models import MAY_BE_BEST, Evaluation
from judge.values import Verdict
from search.algorithm.params import SearchParams
from search.algorithm.ranking import Standing, rank, standing
from search.algorithm.tree import Branch
from search.records.events import NodeBest
from search.records.facts import NodeRow, node_rows, nothing_faster, standings_logged, tree_of, verdict_of, winners_in
from search.records.log import steering_of
from search.records.models import Node, Run, RunEvent


@dataclass(frozen=True)
class RunTree:
    """All nodes of a run in number order, and which of them is the best."""

    run_id: int
    nodes: tuple[NodeRow, ...]
    standing: Standing

    @property
    def best(self) -> int | None:
        """Number of the best node; None where nothing beat PyTorch."""
        return self.standing.best

    @property
    def leader(self) -> int | None:
        """Number of the best node, else of the one closest to PyTorch."""
        return self.standing.leader

    def get(self, number: int) -> NodeRow | None:
        """The node with this number; numbers have no gaps, so place and number agree."""
        return self.nodes[number] if 0 <= number < len(self.nodes) else None


@dataclass(frozen=True)
class RunSummary:
    """One run at a glance. `states` and `verdicts` count nodes without the root; `spark` holds (completion order,
    speedup) at each new leader. `best` is None where nothing beat PyTorch; then `closest` names the kernel next to
    it. `eta_s` is None unless the run is running and a node has completed. `waiting` counts the nodes that wait for a
    person's reply, `waiting_node` is the number of the first of them."""

    run: Run
    states: dict[str, int]
    verdicts: dict[str, int]
    told: int
    steps: int
    in_flight: int
    waiting: int
    waiting_node: int | None
    best: int | None
    best_evaluation: Evaluation | None
    closest: int | None
    closest_evaluation: Evaluation | None
    spark: tuple[tuple[int, float], ...]
    started: datetime
    elapsed_s: float | None
    median_step_s: float | None
    eta_s: float | None
    last_event_at: datetime | None

    @property
    def nothing(self) -> str:
        """What is said where no kernel beat PyTorch."""
        return nothing_faster(ended=self.run.ended)

    @property
    def leader(self) -> int | None:
        """Number of the best node, else of the closest one."""
        return self.closest if self.best is None else self.best

    @property
    def leader_evaluation(self) -> Evaluation | None:
        """That of the best kernel, else of the closest one."""
        return self.best_evaluation or self.closest_evaluation

    @property
    def style(self) -> str:
        """The run's state for shape and colour: `waiting` when it runs, but nothing moves until a person replies."""
        held = self.run.state == Run.State.RUNNING and self.waiting and self.waiting == self.in_flight
        return "waiting" if held else str(self.run.state)


def run_tree(run: Run) -> RunTree:
    """The tree of a run with statistics replayed from its rows. No sources."""
    rows = node_rows(run.pk)
    tree = tree_of(rows, steering_of(run.pk).params(SearchParams.of_run(run.params)))
    nodes: list[NodeRow] = []
    for row in rows:
        depth = 0 if row.parent is None else nodes[row.parent].depth + 1
        branch = tree.branches.get(row.number) or Branch(row.number, None, row.kind, depth)
        nodes.append(
            row._replace(
                depth=depth,
                visits=branch.visits,
                pending=branch.pending,
                total=branch.total,
                best_reward=branch.best,
                reward=branch.own,
            )
        )
    won = winners_in(run.pk)
    bests = ((row.speedup, row.number, row.number in won) for row in rows if row.may_be_best)
    return RunTree(run.pk, tuple(nodes), standing(bests))


def best_number(rows: Iterable[NodeRow]) -> int | None:
    """Number of the node that ranks highest among those that may be a best, whether it beat PyTorch or not."""
    passed = [row for row in rows if row.may_be_best]
    return max(passed, key=lambda row: rank(row.speedup, row.number)).number if passed else None


BEST_FIRST = ("-evaluation__speedup", "number")  # `rank`, the highest first: one row comes out of the database


def best_node(run_id: int) -> Node | None:
    """The node that ranks highest by the same rule, with its evaluation: whom the next one has to beat. What pages call
    the best is `search.records.facts.standing_of`. Sources and reports are fetched only when touched.
    """
    passed = Node.objects.filter(run_id=run_id, state=Node.State.COMPLETED, evaluation__verdict=Verdict.PASS.value)
    audited = Evaluation.objects.filter(MAY_BE_BEST, speedup__isnull=False)
    return passed.filter(evaluation__in=audited).with_verdicts().order_by(*BEST_FIRST).first()


def run_summary(run: Run) -> RunSummary:
    """The summary of one run."""
    return run_summaries([run])[0]


def told_counts(run_ids: Iterable[int]) -> dict[int, int]:
    """Run id -> completed nodes, the root not counted; runs without one are missing."""
    completed = Node.objects.filter(run__in=list(run_ids)).completed()
    return dict(completed.order_by().values_list("run").annotate(Count("id")))


def events_since(run: Run, seq: int, limit: int = 500) -> list[RunEvent]:
    """Events after `seq`, oldest first, at most `limit`."""
    return list(RunEvent.objects.filter(run=run, seq__gt=seq).order_by("seq")[:limit])


def run_summaries(runs: Sequence[Run]) -> list[RunSummary]:
    """The summaries of these runs, in a constant number of queries."""
    if not runs:  # as for the bell of every page, mostly
        return []
    ids = [run.pk for run in runs]
    counts = _counts(ids)
    standings, logged, evaluations = _bests(ids)
    waits = _waits(ids)
    medians = _median_steps([run.pk for run in runs if run.state == Run.State.RUNNING])
    last = dict(RunEvent.objects.filter(run__in=ids).values_list("run").annotate(Max("created_at")).order_by())
    now = timezone.now()
    found = []
    for run in runs:
        states, verdicts = counts[run.pk]
        completed = states[Node.State.COMPLETED]
        points = tuple((best.order, best.speedup or 0.0) for best in logged[run.pk])
        best, closest = standings.get(run.pk, Standing())
        median_s = medians.get(run.pk)
        waiting, waiting_node = waits.get(run.pk, (0, None))
        measured = run.origin != Run.Origin.IMPORT
        found.append(
            RunSummary(
                run=run,
                states=dict(states),
                verdicts=dict(verdicts),
                told=completed,
                steps=run.steps,
                in_flight=sum(states[state] for state in Node.IN_FLIGHT),
                waiting=waiting,
                waiting_node=waiting_node,
                best=best,
                best_evaluation=evaluations.get((run.pk, best)),
                closest=closest,
                closest_evaluation=evaluations.get((run.pk, closest)),
                spark=points,
                started=run.created_at,
                elapsed_s=max(((run.ended_at or now) - run.created_at).total_seconds(), 0.0) if measured else None,
                median_step_s=median_s,
                eta_s=None if median_s is None else median_s * max(run.steps - completed, 0) / run.concurrency,
                last_event_at=last.get(run.pk),
            )
        )
    return found


def _counts(run_ids: list[int]) -> dict[int, tuple[Counter[str], Counter[str]]]:
    """Per run the nodes by state and, of those completed, by verdict."""
    groups = (
        Node.objects.filter(run__in=run_ids)
        .exclude(kind=Node.Kind.ROOT)
        .order_by()
        .values_list("run", "state", "kind", "evaluation__verdict", "reason")
        .annotate(Count("id"))
    )
    counts: dict[int, tuple[Counter[str], Counter[str]]] = defaultdict(lambda: (Counter(), Counter()))
    for run_id, state, kind, verdict, reason, count in groups:
        counts[run_id][0][state] += count
        if state == Node.State.COMPLETED:
            counts[run_id][1][verdict_of(verdict, kind, reason)] += count
    return counts


def _waits(run_ids: list[int]) -> dict[int, tuple[int, int]]:
    """Per run that has nodes waiting for a person: how many, and the lowest number."""
    nodes = Node.objects.filter(run__in=run_ids, state=Node.State.PROPOSING, lease_owner=Node.PERSON)
    found = nodes.order_by().values_list("run").annotate(Count("id"), Min("number"))
    return {run_id: (count, number) for run_id, count, number in found}


def _bests(
    run_ids: list[int],
) -> tuple[dict[int, Standing], dict[int, list[NodeBest]], dict[tuple[int, int | None], Evaluation]]:
    """Per run its standing and its node.best events; and the evaluations of the leaders by run and node."""
    standings, logged = standings_logged(run_ids)
    wanted = {
        (run_id, best.number): best.evaluation
        for run_id, bests in logged.items()
        for best in bests
        if best.number == standings[run_id].leader
    }
    found = Evaluation.objects.defer("source", "report").in_bulk(wanted.values())
    return standings, logged, {place: found[pk] for place, pk in wanted.items() if pk in found}


def _median_steps(run_ids: list[int]) -> dict[int, float]:
    """Median seconds from reservation to verdict, per run that has completed a node."""
    durations: dict[int, list[float]] = defaultdict(list)
    completed = Node.objects.filter(run__in=run_ids).completed()
    for run_id, created, ended in completed.order_by().values_list("run", "created_at", "told_at"):
        if ended is None:
            continue
        durations[run_id].append(max((ended - created).total_seconds(), 0.0))  # hosts' clocks differ
    return {run_id: median(values) for run_id, values in durations.items()}
