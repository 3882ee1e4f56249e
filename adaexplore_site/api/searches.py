"""Searches, their nodes and events, by the readers of their pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Literal

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
    Whole,
    basis_word,
    listed,
)
from judge.evaluations import facts as evaluation_facts
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from search.compare.columns import calls_summed
from search.live.panels import budget_document, causes_of, evidence_of
from search.nodes.views import node_load
from search.records.facts import standing_of
from search.records.log import params_in_force
from search.records.models import Node, Run
from search.records.queries import TreeNode, events_since, run_summaries, run_tree
from search.runs.listing import RunFilter, RunRow, run_rows

router = Router(tags=["searches"])


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
    measures = Measures(_leaders(rows))
    return [SearchOut(**_search(row, measures)) for row in rows]


def _leaders(rows: Iterable[RunRow]) -> Iterator[Evaluation | None]:
    for row in rows:
        yield row.summary.leader_evaluation


def _search(row: RunRow, measures: Measures) -> dict[str, Any]:
    run, summary, cost = row.run, row.summary, row.cost
    return {
        "id": run.pk,
        "title": run.title,
        "problem": problem_ref(run.problem),
        "device": run.device.name,
        "state": run.state,
        "look": summary.look,
        "stop_reason": run.stop_reason,
        "origin": run.origin,
        "proposer": run.proposer,
        "owner": run.owner.get_username() if run.owner else None,
        "seed": run.seed,
        "steps": summary.steps,
        "told": summary.told,
        "in_flight": summary.in_flight,
        "correct": row.ok,
        "failed": row.failed,
        "best_node": summary.best,
        "best": measures.of(summary.best_evaluation),
        "closest_node": summary.closest,
        "closest": measures.of(summary.closest_evaluation),
        "cost": Money(calls=cost.calls, usd=known(cost.usd, cost.calls - cost.unpriced), unpriced=cost.unpriced),
        "limit_usd": row.limit_usd,
        "started_at": summary.started,
        "ended_at": run.ended_at,
        "archived_at": run.archived_at,
        "last_event_at": summary.last_event_at,
        "elapsed_s": summary.elapsed_s,
        "median_step_s": summary.median_step_s,
        "eta_s": summary.eta_s,
        "event_seq": run.event_seq,
    }


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
    return SearchDetail(
        **{
            **_search(row, Measures(_leaders([row]))),
            "best": measures.of(best),
            "best_node": evidence.standing.best,
            "closest": measures.of(closest),
            "closest_node": evidence.standing.closest,
        },
        concurrency=run.concurrency,
        proposals=Tokens(
            calls=evidence.cost.calls,
            tokens=evidence.cost.tokens,
            untold=evidence.cost.untold,
            usd=evidence.cost.price_usd,
            unpriced=evidence.cost.unpriced,
        ),
        best_unassisted=unassisted,
        params=params_in_force(run).to_json(),
        limits=books["limits"],
        spent=books["spent"],
        reserved=books["reserved"],
        causes=[
            CauseOut(
                cluster=cause.key or None,
                what=cause.what,
                stage=cause.stage,
                verdict=cause.verdict,
                reason=cause.reason,
                count=cause.count,
                first=cause.first,
                last=cause.last,
            )
            for cause in causes_of(run, evidence.failed)
        ],
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
    told = dict(rows.values_list("pk", "evaluation"))
    measures = Measures(Evaluation.objects.filter(pk__in=told.values()).defer("source", "report", "message"))
    found = [NodeOut(**_node(node, measures, told.get(node.id))) for node in shown]
    return listed(request, found, shown[-1].number if len(wanted) > limit else None, format)


def _node(node: TreeNode, measures: Measures, evaluation: int | None) -> dict[str, Any]:
    judged = bool(node.told_order)  # the root was told at birth and has no reward
    return {
        "number": node.number,
        "parent": node.parent,
        "kind": node.kind,
        "state": node.state,
        "depth": node.depth,
        "visits": node.visits,
        "pending": node.pending,
        "reward": node.reward if judged else None,
        "best_reward": node.best_reward if judged else None,
        "verdict": node.verdict or None,
        "stage": node.stage or None,
        "reason": node.reason or None,
        "speedup": measures.by_id(evaluation),
        "reused": node.reused,
        "told_order": node.told_order,
        "summary": node.summary,
        "source_hash": node.source_hash or None,
        "by_hand": node.touched,
    }


@router.get("/searches/{int:run_id}/nodes/{int:number}", response=NodeDetail, summary="One node")
def node(request: HttpRequest, run_id: int, number: int) -> Any:
    """Source, verdict, times, cases, what it cost."""
    row = node_load(run_id, number)
    run = row.run
    found = row.evaluation
    measures = Measures([found])
    calls = calls_summed(list(row.proposals.defer("prompt", "reply", "error")))
    over = measures.as_json(evaluation_facts.over_compile(found), found) if found else None
    return NodeDetail(
        **_node(run_tree(run).nodes[row.number], measures, row.evaluation_id),
        search=run.pk,
        source=row.source,
        message=found.message if found else row.message,
        context=[one for one in row.context if isinstance(one, int)],
        device=found.device.name if found else None,
        evaluation=row.evaluation_id,
        over_compile=over,
        times=[
            Times(
                subject=one.subject,
                median_us=one.median_us,
                low_us=one.low_us,
                high_us=one.high_us,
                n=one.n,
                basis=basis_word(one.basis),
                method=one.method,
            )
            for one in (evaluation_facts.measurements(found, samples=False) if found else ())
        ],
        cases=list(found.report.get("cases", ())) if found else [],
        judged_in_ms=(found.wall_ms or None) if found and not found.elsewhere else None,
        proposals=Tokens(
            calls=calls.count, tokens=calls.tokens, untold=calls.untold, usd=calls.price_usd, unpriced=calls.unpriced
        ),
        created_at=row.created_at,
        told_at=row.told_at,
    )


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
    people = User.objects.in_bulk({event.actor_id for event in found if event.actor_id})
    rows = [
        EventOut(
            seq=event.seq,
            kind=event.kind,
            at=event.created_at,
            actor=people[event.actor_id].get_username() if event.actor_id in people else None,
            payload=event.payload,
        )
        for event in found[:limit]
    ]
    return listed(request, rows, rows[-1].seq if len(found) > limit else None, format)
