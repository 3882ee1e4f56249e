"""Reads the rows behind a report: four queries, whatever the number of searches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models.fields.json import KeyTransform

from judge.problems.models import Problem
from judge.values import Audit, Basis, Verdict
from search.records.facts import won_of
from search.records.models import Node, Run
from search.records.queries import told_counts
from search.reports.values import Kernel, Outcome, Ratio

BY_HAND = "manual"  # the proposer behind which a person writes every kernel


@dataclass(frozen=True)
class Read:
    """The searches of a report with their outcomes; `assisted_*` count what was left out for a person's hand in it,
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
    kept = [run for run in runs if not (unassisted and run.proposer == BY_HAND)]
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
    columns = ("speedup", "speedup_low", "speedup_high", "speedup_n", "audit", "basis")
    names = ("evaluation", "run", "number", "told_order", *(f"evaluation__{name}" for name in columns), "over_compile")
    kernels: dict[int, list[Kernel]] = defaultdict(list)
    found = list(rows.values_list(*names))
    won = won_of({row[0] for row in found})
    for pk, run, number, order, speedup, low, high, n, audit, basis, over_compile in found:
        kernels[run].append(
            Kernel(
                number=number,
                order=order,
                audited=audit == Audit.PASSED,
                eager=Ratio(speedup, low, high, n) if speedup else None,
                compile=_ratio(over_compile, basis),
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
