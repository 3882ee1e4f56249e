"""Kernels, problems, rules and clusters of failures, by the readers of their pages."""

from __future__ import annotations

from typing import Any, Literal, TypeVar

from django.http import Http404, HttpRequest
from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Router
from ninja.params.functions import Query

from adaexplore_site.api.searches import known, problem_ref
from adaexplore_site.api.shapes import (
    FORM,
    ClusterOut,
    Form,
    Interval,
    KernelOut,
    LiftOut,
    Listed,
    Measures,
    ProblemDetail,
    ProblemOut,
    RuleOut,
    Whole,
    listed,
    shaped,
)
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem, flag_codes
from judge.problems.queries import problem_page, problem_row
from judge.values import Basis
from memory.failures.models import FailureCluster
from memory.failures.queries import Chosen, ClusterRow, cluster_row, cluster_table
from memory.rules.queries import RuleFilter, RuleRow, library_page, rule_rows
from search.kernels.winners import Wanted, winners

router = Router()
P = TypeVar("P", bound=ProblemOut)
MOST_PROBLEMS = 2_000  # a page


@router.get("/kernels", response=Listed[KernelOut], tags=["kernels"], summary="The fastest kernels")
def kernels(
    request: HttpRequest,
    basis: Literal["measured", "modelled", "reported"] = "measured",
    problem: str = Query("", max_length=80),
    device: str = "",
    dtype: str = "",
    unassisted: bool = False,
    after: Whole = 0,
    format: Form | None = FORM,
) -> Any:
    """By problem and device, a page of problems at a time. Bases never mix in one list."""
    asked = Wanted(Basis(basis), problem.replace("\0", ""), device, dtype, unassisted, after=after)
    page = winners(asked)
    measures = Measures(row.leader.evaluation for row in page.rows)
    rows = [
        shaped(
            KernelOut,
            row,
            row.policy,
            row.leader.evaluation,
            problem=problem_ref(row.problem),
            device=row.device.name,
            gpu=row.gpu or None,
            precision=row.policy.precision.value,
            search=row.leader.node.run_id,
            node=row.leader.node.number,
            speedup=measures.as_json(row.leader.measure, row.leader.evaluation),
            by_hand=row.leader.node.touched,
            sealed_check=row.sealed or None,
            judged_at=row.leader.evaluation.created_at,
        )
        for row in page.rows
    ]
    return listed(request, rows, page.after, format)


@router.get("/problems", response=Listed[ProblemOut], tags=["problems"], summary="What can be searched")
def problems(
    request: HttpRequest,
    q: str = "",
    state: str = "",
    origin: str = "",
    family: str = "",
    archived: bool = False,
    after: Whole = 0,
    format: Form | None = FORM,
) -> Any:
    """The newest versions, two thousand at a time. Those composed by adapt runs only with origin=synthetic."""
    page = problem_page(
        q=q, state=state, origin=origin, family=family, archived=archived, start=after, limit=MOST_PROBLEMS
    )
    end = after + len(page.rows)
    return listed(request, _problems(page.rows), end if end < page.total and page.rows else None, format)


def _problems(rows: list[Problem]) -> list[ProblemOut]:
    measures = Measures(best for row in rows for best in _bests(row))
    return [_problem(ProblemOut, row, measures) for row in rows]


def _bests(row: Problem) -> list[Evaluation]:
    found: list[Evaluation] = row.bests  # type: ignore[attr-defined]  # of judge.problems.queries.ProblemPage
    return found


def _problem(shape: type[P], row: Problem, measures: Measures, **own: Any) -> P:
    bests = [one for best in _bests(row) if (one := measures.of(best)) is not None]
    return shaped(shape, row, bests=bests, eager_us=row.baselines, **own)  # type: ignore[attr-defined]


@router.get("/problems/{slug}", response=ProblemDetail, tags=["problems"], summary="One problem")
def problem(request: HttpRequest, slug: str) -> Any:
    """With its source and policy; never its sealed cases."""
    whole = get_object_or_404(Problem, slug=slug)
    row = problem_row(whole)
    texts = {name: getattr(whole, name) for name in ("description", "source", "source_hash", "policy")}  # not in `row`
    return _problem(ProblemDetail, row, Measures(_bests(row)), flags=flag_codes(whole), **texts)


@router.get("/rules", response=Listed[RuleOut], tags=["rules"], summary="Rules")
def rules(
    request: HttpRequest,
    tab: Literal["queue", "library", "closed"] = "library",
    q: str = Query("", max_length=80),
    origin: str = "",
    scope: str = "",
    least: Whole = Query(0, description="support"),
    adapt: Whole = Query(0, description="number of the adapt run whose failures support them"),
    sort: Literal["newest", "support", "lift", "used", "hits"] = "newest",
    after: Whole = 0,
    format: Form | None = FORM,
) -> Any:
    """`queue` waits for a review, `library` is approved, `closed` is rejected, retired or merged."""
    chosen = RuleFilter(tab=tab, q=q.strip(), origin=origin, scope=scope, least=least, adapt=adapt)
    page = library_page(chosen, sort=sort, start=after, now=timezone.now())
    return listed(request, [_rule(row) for row in page.rows], page.next, format)


@router.get("/rules/{int:rule_id}", response=RuleOut, tags=["rules"], summary="One rule")
def rule(request: HttpRequest, rule_id: int) -> Any:
    """Whatever its state."""
    rows = rule_rows([rule_id], timezone.now())
    if not rows:
        raise Http404(f"There is no rule {rule_id}.")
    return _rule(rows[0])


def _rule(row: RuleRow) -> RuleOut:
    rule, evidence, lift = row.rule, row.evidence, row.lift
    return shaped(
        RuleOut,
        rule,
        evidence,
        row.scope,
        id=rule.pk,
        version=row.version.number,
        text=row.version.text,
        sightings=evidence.count,
        cost_s=known(evidence.cost_s, evidence.priced),
        lift=shaped(
            LiftOut,
            lift,
            interval=_interval(lift.low, lift.high),
            sure_interval=_interval(lift.sure_low, lift.sure_high),
        ),
        prompts=row.hits.eligible,
        shown=row.hits.shown,
        decided_by=rule.decided_by.get_username() if rule.decided_by else None,
    )


def _interval(low: float | None, high: float | None) -> Interval | None:
    return None if low is None or high is None else Interval(low=low, high=high)


@router.get("/failures", response=Listed[ClusterOut], tags=["failures"], summary="Clusters of failures")
def failures(
    request: HttpRequest,
    search: Whole | None = None,
    stage: str = "",
    muted: bool = False,
    sort: Literal["count", "last", "cost"] = "count",
    format: Form | None = FORM,
) -> Any:
    """The hundred that come first. Over all searches, or of one."""
    table = cluster_table(Chosen(run=search, stage=stage, muted=muted, sort=sort))
    return listed(request, [_cluster(row) for row in table.rows], None, format)


@router.get("/failures/{slug:key}", response=ClusterOut, tags=["failures"], summary="One cluster")
def failure(request: HttpRequest, key: str) -> Any:
    """Over all searches."""
    row = cluster_row(get_object_or_404(FailureCluster, key=key))
    if row is None:
        raise Http404("This cluster holds no failure.")
    return _cluster(row)


def _cluster(row: ClusterRow) -> ClusterOut:
    cluster, counted = row.cluster, row.counted
    return shaped(
        ClusterOut,
        row,
        counted,
        cluster,
        cost_s=known(counted.cost_s, counted.priced),
        assignee=cluster.assignee.get_username() if cluster.assignee else None,
        rules=[rule.pk for rule in row.rules],
    )
