"""Which kernels beat PyTorch: the rule of `search.algorithm.ranking` applied to rows. Eager is one baseline, and
torch.compile another where it was timed beside the kernel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

from django.db.models import QuerySet

from judge.evaluations.models import MAY_BE_BEST, Evaluation
from judge.values import Basis, Verdict
from search.algorithm.ranking import Over, Standing, beats, standing
from search.records.events import NodeBest
from search.records.models import Node, RunEvent

COMPILED = ("speedup_compile", "speedup_autotune")  # in Evaluation.report
_COLUMNS = ("speedup", "speedup_low", "basis", *(f"report__{name}" for name in COMPILED))

NOTHING = "Nothing faster than PyTorch was found"
NOTHING_YET = "Nothing faster than PyTorch yet"


def nothing_faster(*, ended: bool) -> str:
    """What is said of a search whose correct kernels beat nothing."""
    return NOTHING if ended else NOTHING_YET


def has_won(evaluation: Evaluation | None) -> bool:
    """Whether this verdict may be a best and beats every baseline it was timed beside. Reads its report."""
    return evaluation is not None and evaluation.may_be_best and beats_torch(evaluation)


def beats_torch(evaluation: Evaluation) -> bool:
    """Whether it beats every baseline it was timed beside, audited or not. Reads its report."""
    compiled = (evaluation.report.get(name) for name in COMPILED)
    return _beats(evaluation.speedup, evaluation.speedup_low, evaluation.basis, *compiled)


def won_of(evaluations: Collection[int]) -> set[int]:
    """Those of these evaluations that have won. One query, which leaves the reports in the database."""
    rows = Evaluation.objects.filter(MAY_BE_BEST, pk__in=evaluations, speedup__gt=1)
    found = rows.values_list("pk", *_COLUMNS) if evaluations else ()
    return {pk for pk, *row in found if _beats(*row)}


def winners_in(run_id: int, numbers: Iterable[int] | None = None) -> set[int]:
    """Numbers of a run's nodes (those named; all when None) whose kernels have won. One query."""
    rows = _bests(run_id).filter(evaluation__speedup__gt=1)
    if numbers is not None:
        rows = rows.filter(number__in=set(numbers))
    return {number for _, number, won in _candidates(rows) if won}


def standing_of(run_id: int, *, unassisted: bool = False) -> Standing:
    """The run's best kernel, else the one closest to PyTorch. With `unassisted` of those no person had a hand in."""
    rows = _bests(run_id)
    return standing(_candidates(rows.filter(touched=False) if unassisted else rows))


def standings_logged(run_ids: Collection[int]) -> tuple[dict[int, Standing], dict[int, list[NodeBest]]]:
    """(standing, its bests in order) per run that ever had one: the same as `standing_of` for many runs at
    once. Two queries. A kernel that is not believed any more is passed over."""
    logged: dict[int, list[NodeBest]] = defaultdict(list)
    events = RunEvent.objects.filter(run__in=run_ids).of(NodeBest).order_by("run", "seq")
    for run_id, payload in events.values_list("run", "payload"):
        logged[run_id].append(NodeBest.read(payload))
    wanted = {best.evaluation for bests in logged.values() for best in bests}
    rows = Evaluation.objects.filter(MAY_BE_BEST, pk__in=wanted).values_list("pk", *_COLUMNS) if wanted else ()
    beat = {pk: _beats(*row) for pk, *row in rows}
    found = {
        run_id: standing(
            (best.speedup, best.number, beat[best.evaluation]) for best in bests if best.evaluation in beat
        )
        for run_id, bests in logged.items()
    }
    return found, logged


def _candidates(rows: QuerySet[Node]) -> list[tuple[float | None, int, bool]]:
    """As `standing` takes them."""
    found = rows.values_list("number", *(f"evaluation__{name}" for name in _COLUMNS))
    return [(row[0], number, _beats(*row)) for number, *row in found]


def _bests(run_id: int) -> QuerySet[Node]:
    """Told nodes that may be a best."""
    passed = Node.objects.filter(run_id=run_id, state=Node.State.TOLD, evaluation__verdict=Verdict.PASS.value)
    return passed.filter(evaluation__in=Evaluation.objects.filter(MAY_BE_BEST, speedup__isnull=False))


def _beats(speedup: float | None, low: float | None, basis: str, *compiled: Any) -> bool:
    rows = [{"value": speedup, "low": low, "basis": basis}, *(row for row in compiled if isinstance(row, dict))]
    return beats(Over(row["value"], row["low"] if row["basis"] == Basis.MEASURED else None) for row in rows)
