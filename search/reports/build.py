"""The blocks of a report: outcomes read from rows, figures with intervals, tables."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db.models.fields.json import KeyTransform

from judge.evaluations.beside import beating
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from judge.values import PRECISIONS, Audit, Basis, Subject, Verdict
from memory.prompting.lift import wilson
from search.proposers import BY_HAND
from search.records.facts import won_of
from search.records.models import Node, Run
from search.records.queries import told_counts
from search.reports.values import (
    BEST,
    EAGER,
    FASTEST,
    OVER,
    Block,
    Figure,
    Kernel,
    Line,
    Outcome,
    Ratio,
    Report,
    Score,
    Table,
)


@dataclass(frozen=True)
class Read:
    """The searches of a report with their outcomes; `assisted_*` count what was left out for manual influence,
    None where nothing was left out for that."""

    runs: tuple[Run, ...]
    outcomes: dict[int, Outcome]
    assisted_runs: int | None = None
    assisted_nodes: int | None = None


def report_runs(*, ids: Iterable[int] | None = None) -> list[Run]:
    """The searches with these ids, or all but those of adapt runs, oldest first, with problem and device."""
    runs = Run.objects.select_related("problem", "device").defer("problem__source", "problem__admission")
    runs = runs.exclude(origin=Run.Origin.ADAPT) if ids is None else runs.filter(pk__in=list(ids))
    return list(runs.order_by("pk"))


def outcomes_read(runs: Sequence[Run], *, unassisted: bool) -> Read:
    """What came of these searches. With `unassisted` searches by hand are left out, and kernels a person touched."""
    kept = [run for run in runs if not (unassisted and run.proposer in BY_HAND)]
    ids = [run.pk for run in kept]
    told = told_counts(ids)
    kernels, touched = _kernels(ids, unassisted=unassisted)
    outcomes = {
        run.pk: Outcome(run.pk, run.problem_id, told.get(run.pk, 0), tuple(kernels.get(run.pk, ()))) for run in kept
    }
    if not unassisted:
        return Read(tuple(kept), outcomes)
    return Read(tuple(kept), outcomes, len(runs) - len(kept), touched)


def _kernels(ids: list[int], *, unassisted: bool) -> tuple[dict[int, list[Kernel]], int]:
    """(correct kernels by search in told order, how many were left out)."""
    believed = {"evaluation__verdict": Verdict.PASS.value, "evaluation__doubt": ""}
    passed = Node.objects.filter(run__in=ids, state=Node.State.COMPLETED, **believed)
    left_out = 0
    if unassisted:
        left_out = passed.filter(touched=True).count()
        passed = passed.filter(touched=False)
    rows = passed.annotate(over_compile=KeyTransform("speedup_compile", "evaluation__report")).order_by("told_order")
    beside = ("over_shipped", "shipped_interval", "over_fastest", "fastest_interval", "fastest")
    columns = ("speedup", "speedup_low", "speedup_high", "speedup_n", "audit", "basis", *beside)
    names = ("evaluation", "run", "number", "told_order", *(f"evaluation__{name}" for name in columns), "over_compile")
    kernels: dict[int, list[Kernel]] = defaultdict(list)
    found = list(rows.values_list(*names))
    judged = {row[0] for row in found}
    beat, won = beating(Evaluation.objects.filter(pk__in=judged)), won_of(judged)
    for pk, run, number, order, speedup, low, high, n, audit, basis, *others, named, over_compile in found:
        shipped, shipped_range, fastest, fastest_range = others
        kernels[run].append(
            Kernel(
                number=number,
                order=order,
                audited=audit == Audit.PASSED,
                eager=Ratio(speedup, low, high, n) if speedup else None,
                compile=_ratio(over_compile, basis),
                shipped=Ratio(shipped, *(shipped_range or ())) if shipped else None,
                fastest=Ratio(fastest, *(fastest_range or ())) if fastest else None,
                named=named,
                beats=pk in beat,
                won=pk in won,
            )
        )
    return kernels, left_out


def _ratio(row: Any, basis: str) -> Ratio | None:
    """A stored speedup over torch.compile; one of another basis than the headline's is none."""
    if not isinstance(row, dict) or not row.get("value") or row.get("basis") != basis:
        return None
    return Ratio(row["value"], row.get("low"), row.get("high"), row.get("n"))


def basis_of(run: Run) -> Basis | None:
    """What this search's speedups are; None where the device has no times."""
    return run.device.basis


def is_degenerate(run: Run) -> bool:
    """Whether its problem is flagged: left out of every aggregate."""
    return run.problem.state == Problem.State.DEGENERATE


CAP = 10.0  # speedups count as at most this in means
FLOOR = 0.1  # what a failure counts as in the geometric mean
FAST = (0.5, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0)
SEED = 20260422
RESAMPLES = 2000
LEVEL = 0.95

Reduce = Callable[..., Any]  # over an axis, as numpy's own


def _geometric(values: np.ndarray, axis: int = -1) -> Any:
    return np.exp(np.mean(values, axis=axis))


def figures(problems: Sequence[Sequence[Score]], *, rule: str, basis: Basis) -> tuple[tuple[Figure, ...], int]:
    """(aggregates, problems whose speedup is unknown). One row of scores per problem, one score per search of it.

    speedup: mean of min(s, 10), failures as 0. gm10: geometric mean of s within [0.1, 10], failures as 0.1.
    median: of s, failures as 0. fast_p: share of problems with s strictly above p. correct: share with a right kernel.
    """
    correct = _column(problems, rule, lambda score: float(score.correct))
    capped = _column(problems, rule, _known(lambda speedup: min(speedup, CAP)))
    found = [
        _figure("correct", "correct", correct, np.mean, basis, share=True),
        _figure("speedup", "speedup, mean of min(s, 10)", capped, np.mean, basis),
        _figure("gm10", "GM(10), geometric mean", _column(problems, rule, _known(_log)), _geometric, basis),
        _figure("median", "median speedup", _column(problems, rule, _known(float)), np.median, basis),
    ]
    for limit in FAST:
        above = _column(problems, rule, _known(_above(limit)))
        found.append(_figure(f"fast_{limit:g}", f"Fast@{limit:g}", above, np.mean, basis, share=True))
    return tuple(found), sum(value is None for value in capped)


def _log(speedup: float) -> float:
    return math.log(min(max(speedup, FLOOR), CAP))


def _above(limit: float) -> Callable[[float], float]:
    return lambda speedup: float(speedup > limit)


def _known(count: Callable[[float], float]) -> Callable[[Score], float | None]:
    return lambda score: None if score.speedup is None else count(score.speedup)


def _column(
    problems: Sequence[Sequence[Score]], rule: str, count: Callable[[Score], float | None]
) -> list[float | None]:
    """What each problem counts for: its best search alone, or the mean over its searches. None where unknown."""
    return [count(_best(scores)) if rule == BEST else _mean_of(count(score) for score in scores) for scores in problems]


def _best(scores: Sequence[Score]) -> Score:
    """The fastest search; a correct one of unknown speed ranks above a failure only."""
    return max(scores, key=lambda score: (score.correct, score.speedup is not None, score.speedup or 0.0))


def _mean_of(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _figure(
    metric: str, label: str, column: Sequence[float | None], reduce: Reduce, basis: Basis, *, share: bool = False
) -> Figure:
    values = np.array([value for value in column if value is not None], dtype=float)
    if not len(values):
        return Figure(metric, label, None, None, None, 0, basis, share)
    low, high = share_interval(float(values.mean()), len(values)) if share else interval(values, reduce)
    return Figure(metric, label, float(reduce(values, axis=-1)), low, high, len(values), basis, share)


def interval(values: np.ndarray, reduce: Reduce) -> tuple[float | None, float | None]:
    """Percentile bootstrap over problems at 95 %, the same resamples every time; Nones below two problems."""
    if len(values) < 2:
        return None, None
    from scipy import stats  # takes a second to import, which a web process need not pay at its start

    found = stats.bootstrap(
        (values,),
        reduce,
        n_resamples=RESAMPLES,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(SEED),
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def share_interval(share: float, count: int) -> tuple[float | None, float | None]:
    """Wilson's score interval at 95 %: three of three problems do not make 100 % certain. Nones below two problems."""
    return wilson(share * count, count) if count >= 2 else (None, None)


def shares_above(speedups: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """Fast@p as a function of p: from p = 0, the places where it falls and the share left right of each."""
    total = len(speedups)
    points = [(0.0, sum(speedup > 0 for speedup in speedups) / total)] if total else []
    for limit in sorted({speedup for speedup in speedups if speedup > 0}):
        points.append((limit, sum(speedup > limit for speedup in speedups) / total))
    return tuple(points)


def progress(steps: Sequence[Sequence[tuple[int, float]]], *, last: int) -> tuple[tuple[int, float], ...]:
    """(steps told, mean over problems of min(best so far, 10)) wherever it rises. `steps` holds (order, speedup)."""
    bests = [0.0] * len(steps)
    rises = sorted((order, problem, speedup) for problem, rows in enumerate(steps) for order, speedup in rows)
    points: dict[int, float] = {0: 0.0}
    for order, problem, speedup in rises:
        if min(speedup, CAP) > bests[problem]:
            bests[problem] = min(speedup, CAP)
            points[order] = sum(bests) / len(bests)
    if steps and last:
        points[last] = sum(bests) / len(bests)
    return tuple(sorted(points.items()))


JUDGED, AUDITED = "judged", "audited"
_ORDER = (Basis.MEASURED, Basis.MODELLED, Basis.REPORTED)


def report_of(runs: Sequence[Run], *, title: str, rule: str = BEST, unassisted: bool = False) -> Report:
    """The report over these searches (with problem and device loaded). Raises ValueError for an unknown rule."""
    read = outcomes_read(runs, unassisted=unassisted)
    groups: dict[tuple[Basis, str], list[Run]] = defaultdict(list)
    for run in read.runs:
        basis = basis_of(run)
        if basis is not None:
            groups[basis, run.device.name].append(run)
    ordered = sorted(groups.items(), key=lambda item: (_ORDER.index(item[0][0]), item[0][1]))
    return Report(
        title=title,
        rule=rule,
        unassisted=unassisted,
        assisted_runs=read.assisted_runs,
        assisted_nodes=read.assisted_nodes,
        blocks=tuple(_block(basis, group, read, rule) for (basis, _), group in ordered),
        seed=SEED,
        resamples=RESAMPLES,
    )


def _block(basis: Basis, runs: list[Run], read: Read, rule: str) -> Block:
    sound = [run for run in runs if not is_degenerate(run)]
    counted = [run for run in sound if run.ended or read.outcomes[run.pk].told]  # no step told is no failure yet
    problems: dict[int, list[Outcome]] = defaultdict(list)
    named: dict[int, Problem] = {}
    for run in counted:
        problems[run.problem_id].append(read.outcomes[run.pk])
        named[run.problem_id] = run.problem
    lines = tuple(
        sorted(
            (_line(named[pk], outcomes, basis) for pk, outcomes in problems.items()),
            key=lambda line: (line.title.lower(), line.slug),
        )
    )
    # By their texts: resamples, and so intervals, depend on the order of problems, and must not on that of searches.
    groups = [problems[pk] for pk in sorted(problems, key=lambda pk: named[pk].source_hash)]
    flagged = sorted({(run.problem.slug, run.problem.title) for run in runs if is_degenerate(run)})
    elsewhere = runs[0].device.imported
    populations = (JUDGED,) if elsewhere else (JUDGED, AUDITED)
    return Block(
        basis=basis,
        device=runs[0].device.name,
        device_title=runs[0].device.title,
        lines=lines,
        degenerate=tuple(flagged),
        runs=len(counted),
        unended=sum(not run.ended for run in counted),
        unbegun=len(sound) - len(counted),
        tables=tuple(_table(groups, population, over, rule, basis) for population in populations for over in OVER),
        provisional_only=sum(_only_provisional(group) for group in groups) if AUDITED in populations else 0,
        provisional_faster=sum(_faster_provisional(group) for group in groups) if AUDITED in populations else 0,
        curve=_curve(groups),
        shares={population: _shares(groups, population) for population in populations},
        elsewhere=elsewhere,
    )


def _score(outcome: Outcome, population: str, over: str) -> Score:
    best = outcome.best(audited=population == AUDITED)
    if best is None:
        return Score(correct=False, speedup=0.0)
    ratio = best.over(over)
    return Score(correct=True, speedup=ratio.value if ratio else None)


def _table(groups: list[list[Outcome]], population: str, over: str, rule: str, basis: Basis) -> Table:
    scores = [[_score(outcome, population, over) for outcome in group] for group in groups]
    found, unknown = figures(scores, rule=rule, basis=basis)
    kernels = [kernel for group in groups for outcome in group for kernel in outcome.kernels]
    timed = any(kernel.over(over) for kernel in kernels)
    if over == FASTEST:  # else it is the same table as over eager
        timed = any(kernel.named not in ("", Subject.EAGER) for kernel in kernels)
    return Table(population, over, found, unknown, timed or over == EAGER)


def _line(problem: Problem, outcomes: list[Outcome], basis: Basis) -> Line:
    """The best kernel over all searches of a problem; of equally fast ones that of the earlier search."""
    bests = [(outcome, best) for outcome in outcomes if (best := outcome.best(audited=False)) is not None]
    top = max(bests, key=lambda item: item[1].rank(item[0].run), default=None)
    return Line(
        slug=problem.slug,
        title=problem.title,
        runs=tuple(outcome.run for outcome in outcomes),
        run=top[0].run if top else None,
        number=top[1].number if top else None,
        speedup=top[1].eager if top else None,
        compile=top[1].compile if top else None,
        shipped=top[1].shipped if top else None,
        fastest=top[1].fastest if top else None,
        named=top[1].named if top else "",
        numerics=PRECISIONS[problem.numerics],
        audited=bool(top and top[1].audited),
        correct_runs=len(bests),
        basis=basis,
        won=bool(top and top[1].won),
    )


def _fastest(group: list[Outcome], *, audited: bool) -> float | None:
    """The largest speedup over eager of a problem; 0 when it is correct and untimed, None when it is not correct."""
    bests = [best for outcome in group if (best := outcome.best(audited=audited)) is not None]
    return max((best.eager.value if best.eager else 0.0 for best in bests), default=None)


def _only_provisional(group: list[Outcome]) -> bool:
    return _fastest(group, audited=False) is not None and _fastest(group, audited=True) is None


def _faster_provisional(group: list[Outcome]) -> bool:
    audited = _fastest(group, audited=True)
    return audited is not None and (_fastest(group, audited=False) or 0.0) > audited


def _shares(groups: list[list[Outcome]], population: str) -> tuple[tuple[float, float], ...]:
    return shares_above([_fastest(group, audited=population == AUDITED) or 0.0 for group in groups])


def _curve(groups: list[list[Outcome]]) -> tuple[tuple[int, float], ...]:
    steps = [
        [(kernel.order, kernel.eager.value) for outcome in group for kernel in outcome.kernels if kernel.eager]
        for group in groups
    ]
    return progress(steps, last=max((outcome.told for group in groups for outcome in group), default=0))
