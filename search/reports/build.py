"""Puts a report together: one block per basis and device, in each the judged and the audited figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from judge.devices.models import Device
from judge.problems.models import Problem
from judge.values import Basis
from search.algorithm.ranking import rank
from search.records.models import Run
from search.reports.aggregates import RESAMPLES, SEED, figures, progress, shares_above
from search.reports.reading import Read, basis_of, is_degenerate, outcomes_read
from search.reports.values import BEST, COMPILE, EAGER, Block, Line, Outcome, Report, Score, Table

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
    elsewhere = runs[0].device.kind == Device.Kind.EXTERNAL
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
        tables=tuple(
            _table(groups, population, over, rule, basis) for population in populations for over in (EAGER, COMPILE)
        ),
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
    timed = any(kernel.over(over) for group in groups for outcome in group for kernel in outcome.kernels)
    return Table(population, over, found, unknown, timed or over == EAGER)


def _line(problem: Problem, outcomes: list[Outcome], basis: Basis) -> Line:
    """The best kernel over all searches of a problem; of equally fast ones that of the earlier search."""
    bests = [(outcome, best) for outcome in outcomes if (best := outcome.best(audited=False)) is not None]
    top = max(bests, key=lambda item: rank(item[1].eager.value if item[1].eager else None, item[0].run), default=None)
    return Line(
        slug=problem.slug,
        title=problem.title,
        runs=tuple(outcome.run for outcome in outcomes),
        run=top[0].run if top else None,
        number=top[1].number if top else None,
        speedup=top[1].eager if top else None,
        compile=top[1].compile if top else None,
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
