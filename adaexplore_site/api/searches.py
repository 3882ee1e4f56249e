"""Searches, their nodes and events, by the readers of their pages."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeVar

from django.contrib.auth.models import User
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Router
from ninja.params.functions import Query

from adaexplore_site.api.shapes import (
    FORM,
    CauseOut,
    EventOut,
    Form,
    Interval,
    Listed,
    Measures,
    Money,
    NodeDetail,
    NodeOut,
    ProblemRef,
    SearchDetail,
    SearchOut,
    Times,
    Tokens,
    WeightedCaseOut,
    Whole,
    basis_word,
    listed,
    shaped,
)
from judge.evaluations import facts as evaluation_facts
from judge.evaluations.cases import cases_of
from judge.evaluations.models import Evaluation
from judge.evaluations.samples import measurements
from judge.problems.models import Problem
from search.compare.columns import calls_summed
from search.live.panels import budget_document, causes_of, evidence_of
from search.nodes.page import waited_for
from search.nodes.views import node_load
from search.records.facts import NodeRow, standing_of
from search.records.log import params_in_force
from search.records.models import Node, Run
from search.records.queries import events_since, run_summaries, run_tree
from search.runs.listing import RunFilter, RunRow, run_rows

router = Router(tags=["searches"])
S = TypeVar("S", bound=SearchOut)
N = TypeVar("N", bound=NodeOut)


@router.get("/searches", response=Listed[SearchOut], summary="Searches, newest first")
def searches(
    request: HttpRequest,
    state: Literal["", "running", "paused", "ended", "adapt", "archived"] = "",
    q: str = Query("", description="words of title or problem"),
    device: str = "",
    sort: Literal["", "oldest", "problem"] = "",
    after: Whole | None = None,
    limit: int = Query(50, ge=1, le=200),
    format: Form | None = FORM,
) -> Any:
    """As the list of searches shows them."""
    chosen = RunFilter.of({"state": state, "q": q, "device": device, "sort": sort})
    found = list(chosen.runs(after)[: limit + 1])
    rows = search_rows(found[:limit], timezone.now())
    return listed(request, rows, found[limit - 1].pk if len(found) > limit else None, format)


def search_rows(runs: list[Run], now: datetime) -> list[SearchOut]:
    """Rows of the list, in a constant number of queries."""
    rows = run_rows(run_summaries(runs), now=now)
    measures = Measures(row.summary.leader_evaluation for row in rows)
    return [_search(SearchOut, row, measures) for row in rows]


def _search(shape: type[S], row: RunRow, measures: Measures, **own: Any) -> S:
    run, summary, cost = row.run, row.summary, row.cost
    values: dict[str, Any] = {
        "best_node": summary.best,
        "best": measures.of(summary.best_evaluation),
        "closest_node": summary.closest,
        "closest": measures.of(summary.closest_evaluation),
    }
    return shaped(
        shape,
        summary,
        run,
        row,
        id=run.pk,
        problem=problem_ref(run.problem),
        device=run.device.name,
        owner=run.owner.get_username() if run.owner else None,
        look=summary.style,
        correct=row.ok,
        cost=Money(calls=cost.calls, usd=known(cost.usd, cost.calls - cost.unpriced), unpriced=cost.unpriced),
        started_at=summary.started,
        **(values | own),
    )


def problem_ref(problem: Problem) -> ProblemRef:
    """Which problem it is."""
    return ProblemRef(slug=problem.slug, title=problem.title, degenerate=problem.state == Problem.State.DEGENERATE)


def known(value: Any, count: int) -> Any:
    """A sum over `count` known things; None over none, as nobody knows what it would have been."""
    return value if count else None


@router.get("/searches/{int:run_id}", response=SearchDetail, summary="One search")
def search(request: HttpRequest, run_id: int) -> Any:
    """What the header and the panels of its page say."""
    run = _run(run_id)
    now = timezone.now()
    evidence = evidence_of(run, now)
    (row,) = run_rows([evidence.summary], now=now)
    unassisted, books = standing_of(run.pk, unassisted=True).best, budget_document(run)
    best, closest = (node.evaluation if node else None for node in (evidence.best, evidence.closest))
    measures = Measures([best, closest])
    return _search(
        SearchDetail,
        row,
        measures,
        best=measures.of(best),
        best_node=evidence.standing.best,
        closest=measures.of(closest),
        closest_node=evidence.standing.closest,
        proposals=shaped(Tokens, evidence.cost, calls=evidence.cost.count, usd=evidence.cost.price_usd),
        best_unassisted=unassisted,
        params=params_in_force(run).to_json(),
        limits=books["limits"],
        spent=books["spent"],
        reserved=books["reserved"],
        causes=[shaped(CauseOut, cause, cluster=cause.key or None) for cause in causes_of(run, evidence.failed)],
    )


def _run(run_id: int) -> Run:
    return get_object_or_404(Run.objects.select_related("problem", "device", "owner"), pk=run_id)


@router.get("/searches/{int:run_id}/nodes", response=Listed[NodeOut], summary="Its tree, by node number")
def nodes(
    request: HttpRequest,
    run_id: int,
    after: int = Query(-1, ge=-1, le=2**63 - 1, description="a node number"),
    limit: int = Query(200, ge=1, le=1000),
    format: Form | None = FORM,
) -> Any:
    """Statistics are replayed from the log, as the tree on the page."""
    tree = run_tree(_run(run_id))
    wanted = [node for node in tree.nodes if node.number > after][: limit + 1]
    shown = wanted[:limit]
    rows = Node.objects.filter(pk__in=[node.id for node in shown]).exclude(evaluation=None)
    judged = dict(rows.values_list("pk", "evaluation"))
    measures = Measures(Evaluation.objects.filter(pk__in=judged.values()).defer("source", "report", "message"))
    found = [_node(NodeOut, node, measures, judged.get(node.id)) for node in shown]
    return listed(request, found, shown[-1].number if len(wanted) > limit else None, format)


def _node(shape: type[N], node: NodeRow, measures: Measures, evaluation: int | None, /, **own: Any) -> N:
    judged = bool(node.told_order)  # the root was complete at birth and has no reward
    return shaped(
        shape,
        node,
        reward=node.reward if judged else None,
        best_reward=node.best_reward if judged else None,
        speedup=measures.by_id(evaluation),
        by_hand=node.touched,
        **own,
    )


@router.get("/searches/{int:run_id}/nodes/{int:number}", response=NodeDetail, summary="One node")
def node(request: HttpRequest, run_id: int, number: int) -> Any:
    """Source, verdict, times, cases, what it cost."""
    row = node_load(run_id, number)
    run = row.run
    found = row.evaluation
    measures = Measures([found])
    calls = calls_summed(row.proposals.all())
    over = measures.as_json(evaluation_facts.over_compile(found), found) if found else None
    times = measurements(found, samples=False) if found else ()
    waits, prompt = waited_for(row)
    return _node(
        NodeDetail,
        run_tree(run).nodes[row.number],
        measures,
        row.evaluation_id,
        search=run.pk,
        source=row.source,
        message=found.message if found else row.message,
        context=[one for one in row.context if isinstance(one, int)],
        device=found.device.name if found else None,
        evaluation=row.evaluation_id,
        over_compile=over,
        times=[shaped(Times, one, basis=basis_word(one.basis)) for one in times],
        cases=list(found.report.get("cases", ())) if found else [],
        weighted_cases=_weighted(found),
        judged_in_ms=(found.wall_ms or None) if found and not found.elsewhere else None,
        proposals=shaped(Tokens, calls, calls=calls.count, usd=calls.price_usd),
        waits_for=waits,
        prompt=prompt,
        created_at=row.created_at,
        told_at=row.told_at,
    )


def _weighted(evaluation: Evaluation | None) -> list[WeightedCaseOut]:
    found = cases_of(evaluation) if evaluation is not None else None
    rows = []
    for row in found.rows if found is not None else ():
        measure, bounds = row.measure, None
        if measure is not None and measure.low is not None and measure.high is not None:
            bounds = Interval(low=measure.low, high=measure.high)
        value, n = (None, None) if measure is None else (measure.value, measure.n)
        rows.append(shaped(WeightedCaseOut, row, case=row.name, speedup=value, n=n, interval=bounds))
    return rows


@router.get("/searches/{int:run_id}/events", response=Listed[EventOut], summary="What happened, oldest first")
def events(
    request: HttpRequest,
    run_id: int,
    since: Whole = Query(0, description="number of the last event that is known"),
    limit: int = Query(200, ge=1, le=1000),
    format: Form | None = FORM,
) -> Any:
    """Ask again with `since` set to the last `seq`: numbers have no gaps, so nothing is missed."""
    found = events_since(_run(run_id), since, limit + 1)
    people = dict(User.objects.filter(pk__in={event.actor_id for event in found}).values_list("pk", "username"))
    rows = [
        shaped(EventOut, event, at=event.created_at, actor=people.get(event.actor_id or 0)) for event in found[:limit]
    ]
    return listed(request, rows, rows[-1].seq if len(found) > limit else None, format)
