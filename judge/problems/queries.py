"""What pages and commands read of the judge. The number of queries does not grow with the number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.fields.json import KeyTextTransform

from judge.devices.models import Device
from judge.devices.services import served_devices
from judge.evaluations.models import MAY_BE_BEST, Evaluation
from judge.problems.models import Problem
from judge.values import Basis

SORTS: dict[str, tuple[str, ...]] = {
    "family": ("family", "title", "id"),
    "title": ("title", "id"),
    "newest": ("-created_at", "-id"),
    "searches": ("-searches", "title", "id"),
}


@dataclass(frozen=True)
class ProblemPage:
    """The first rows of a filtered list, and how many there are in all.

    Each row is a Problem without source and admission, with `searches` (a count), `bests` (its fastest Evaluation of
    each basis that has one) and `baselines` (device name -> eager microseconds, as the preflight found them).
    """

    rows: list[Problem]
    total: int


def problem_page(
    *,
    q: str = "",
    state: str = "",
    origin: str = "",
    family: str = "",
    sort: str = "family",
    start: int = 0,
    limit: int = 200,
) -> ProblemPage:
    """Problems by words in title, slug or family, by state, origin and family, from the row `start` on. Unknown values
    filter nothing.

    Synthetic ones are there only when their origin is asked for: an adapt run makes hundreds.
    """
    chosen = _filtered(q.strip(), state, origin, family)
    rows = _read(chosen, SORTS.get(sort, SORTS["family"]), start, limit + 1)
    total = len(rows) if not start and len(rows) <= limit else chosen.count()
    return ProblemPage(rows[:limit], total)


def problem_row(problem: Problem) -> Problem:
    """One problem as a row of the list."""
    return _read(Problem.objects.filter(pk=problem.pk), ("id",), 0, 1)[0]


def _read(chosen: QuerySet[Problem], order: tuple[str, ...], start: int, limit: int) -> list[Problem]:
    devices = list(served_devices())
    audited = Evaluation.objects.filter(MAY_BE_BEST, speedup__isnull=False)
    best = audited.filter(problem=OuterRef("pk")).order_by("-speedup", "id")
    rows = list(
        chosen.defer("source", "admission", "description")
        .annotate(
            searches=Count("runs", distinct=True),
            **{f"best_{basis.value}": Subquery(best.filter(basis=basis.value).values("pk")[:1]) for basis in Basis},
            **{f"eager_{device.pk}": _eager(device) for device in devices},
        )
        .order_by(*order)[start : start + limit]
    )
    return _completed(rows, devices)


def _filtered(q: str, state: str, origin: str, family: str) -> QuerySet[Problem]:
    problems = Problem.objects.all()
    for word in q.split():
        problems = problems.filter(Q(title__icontains=word) | Q(slug__icontains=word) | Q(family__icontains=word))
    if state in Problem.State.values:
        problems = problems.filter(state=state)
    if origin in Problem.Origin.values:
        problems = problems.filter(origin=origin)
    else:
        problems = problems.exclude(origin=Problem.Origin.SYNTHETIC)
    return problems.filter(family=family) if family else problems


def _eager(device: Device) -> KeyTextTransform:
    """`admission[device]["eager_us"]`, without loading the report, which holds the whole op graph."""
    return KeyTextTransform("eager_us", KeyTextTransform(device.name, F("admission")))


def _completed(rows: Sequence[Problem], devices: list[Device]) -> list[Problem]:
    wanted = {row.pk: [getattr(row, f"best_{basis.value}") for basis in Basis] for row in rows}
    numbers = {number for group in wanted.values() for number in group if number is not None}
    found = Evaluation.objects.defer("source", "report", "message").in_bulk(numbers) if numbers else {}
    for row in rows:
        row.bests = [found[number] for number in wanted[row.pk] if number in found]  # type: ignore[attr-defined]
        eager = {device.name: _number(getattr(row, f"eager_{device.pk}")) for device in devices}
        row.baselines = {name: us for name, us in eager.items() if us is not None}  # type: ignore[attr-defined]
    return list(rows)


def _number(value: object) -> float | None:
    """A number out of JSON: PostgreSQL gives text and NULL, SQLite a number and the text "null"."""
    return None if value in (None, "null") else float(str(value))
