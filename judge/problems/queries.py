"""Problems as pages and the API read them: rows, details, preflights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.fields.json import KeyTextTransform
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from judge.devices.models import Device
from judge.devices.services import served_devices
from judge.evaluations.beside import beating, gradients_text, numerics_text
from judge.evaluations.models import MAY_BE_BEST, Evaluation
from judge.problems.models import Problem
from judge.problems.preflight import Preflight
from judge.sources.checks import declared_cases, declared_weights
from judge.values import Basis, Gradients, Library, Mode, Policy

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

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
    each basis that has one, with `beats`: whether that beat PyTorch) and `baselines` (device name -> eager
    microseconds, as the preflight found them).
    """

    rows: list[Problem]
    total: int


def problem_page(
    *,
    q: str = "",
    state: str = "",
    origin: str = "",
    family: str = "",
    archived: bool = False,
    sort: str = "family",
    start: int = 0,
    limit: int = 200,
) -> ProblemPage:
    """Problems by text in title, slug or family, by state, origin and family, from the row `start` on. Unknown values
    filter nothing. Of each problem the newest version; archived ones when they are asked for, and they alone.

    Synthetic ones are there only when their origin is asked for: an adapt run makes hundreds.
    """
    chosen = _filtered(q.strip(), state, origin, family).filter(superseded=False, archived_at__isnull=not archived)
    rows = _document(chosen, SORTS.get(sort, SORTS["family"]), start, limit + 1)
    total = len(rows) if not start and len(rows) <= limit else chosen.count()
    return ProblemPage(rows[:limit], total)


def problem_row(problem: Problem) -> Problem:
    """One problem as a row of the list."""
    return _document(Problem.objects.filter(pk=problem.pk), ("id",), 0, 1)[0]


def _document(chosen: QuerySet[Problem], order: tuple[str, ...], start: int, limit: int) -> list[Problem]:
    devices = list(served_devices())
    audited = Evaluation.objects.filter(MAY_BE_BEST, speedup__isnull=False)
    best = audited.filter(problem=OuterRef("pk")).order_by("-speedup", "id")
    rows = list(
        chosen.defer("source", "admission", "description")
        .annotate(
            searches=Count("runs", distinct=True),
            **{f"best_{basis.value}": Subquery(best.filter(basis=basis.value).values("pk")[:1]) for basis in Basis},
            # `admission[device]["eager_us"]`, without loading the report, which holds the whole op graph
            **{
                f"eager_{device.pk}": KeyTextTransform("eager_us", KeyTextTransform(device.name, F("admission")))
                for device in devices
            },
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


def _completed(rows: Sequence[Problem], devices: list[Device]) -> list[Problem]:
    wanted = {row.pk: [getattr(row, f"best_{basis.value}") for basis in Basis] for row in rows}
    numbers = {number for group in wanted.values() for number in group if number is not None}
    found = Evaluation.objects.defer("source", "report", "message").in_bulk(numbers) if numbers else {}
    beat = beating(Evaluation.objects.filter(pk__in=numbers)) if numbers else set()
    for pk, evaluation in found.items():
        evaluation.beats = pk in beat  # type: ignore[attr-defined]
    for row in rows:
        row.bests = [found[number] for number in wanted[row.pk] if number in found]  # type: ignore[attr-defined]
        eager = {device.name: _number(getattr(row, f"eager_{device.pk}")) for device in devices}
        row.baselines = {name: us for name, us in eager.items() if us is not None}  # type: ignore[attr-defined]
    return list(rows)


def _number(value: object) -> float | None:
    """A number out of JSON: PostgreSQL gives text and NULL, SQLite a number and the text "null"."""
    return None if value in (None, "null") else float(str(value))


_POLICY: dict[Mode | Library, StrOrPromise] = {
    Mode.CONSTRUCTED: _("as set by the constructor"),
    Mode.TRAIN: _("train"),
    Mode.EVAL: _("eval"),
    Library.ALLOW: _("allowed"),
    Library.LABEL: _("allowed and reported"),
    Library.REFUSE: _("refused"),
}


def policy_rows(policy: Policy) -> list[tuple[str, StrOrPromise]]:
    """(name, what it means) in reading order."""
    on_device = policy.inputs == "device"
    rows: list[tuple[str, StrOrPromise]] = [
        (gettext("Numerics"), numerics_text(policy.precision)),
        (gettext("Data type"), policy.dtype or gettext("as in the source")),
        (gettext("Mode"), _POLICY[policy.mode]),
        (gettext("Library compute"), _POLICY[policy.library]),
        (gettext("Inputs"), gettext("made on the device") if on_device else gettext("made on the CPU and copied")),
    ]
    if policy.gradients is not Gradients.NONE:
        rows.append((gettext("Gradients"), gradients_text(policy.gradients)))
    if policy.equal_seeding:
        rows.append(
            (
                gettext("Parameters"),
                gettext("copied to each candidate; one that cannot take them draws its own from the same seed"),
            )
        )
    return rows


def graph_summary(checks: Iterable[Preflight], limit: int) -> dict[str, Any] | None:
    """From the first report that holds a graph: how many operators, each of their kinds with its count, the most
    frequent first, at most `limit` rows of the table, and how many are left out."""
    graph = next((check.report["graph"] for check in checks if check.report.get("graph")), None)
    if not graph:
        return None
    nodes = graph["nodes"]
    names = [node["op"].split(".")[1] for node in nodes if node["op"].startswith("aten.")]
    rows = [
        {
            "name": node["name"],
            "op": node["op"],
            "inputs": ", ".join(_references([node.get("args", ()), node.get("kwargs", {})])),
            "target": node.get("target", ""),
            "outs": [node["out"]] if node.get("out") else [out for out in node.get("outs", ()) if out],
        }
        for node in nodes[:limit]
    ]
    kinds = Counter(names).most_common()
    return {"operators": len(names), "kinds": kinds, "rows": rows, "hidden": max(0, len(nodes) - limit)}


def _references(value: Any) -> list[str]:
    """Names of the nodes an argument tree refers to, in order."""
    if isinstance(value, dict):
        if isinstance(value.get("node"), str):
            return [value["node"]]
        return [name for item in value.values() for name in _references(item)]
    if isinstance(value, list | tuple):
        return [name for item in value for name in _references(item)]
    return []


@dataclass(frozen=True)
class DeclaredCase:
    """A case of get_cases(): its inputs as a preflight saw them, and what each device does with it."""

    name: str
    inputs: Sequence[Mapping[str, Any]]
    uses: tuple[tuple[str, StrOrPromise], ...]  # device, what for
    weight: float = 0.0  # of its speedup in the mean; 0: it has none


def _named(device: Device) -> str:
    """Its name, and what it is where the name does not say that."""
    return device.name if device.title.lower() in ("", device.name) else f"{device.name} ({device.title})"


def declared_rows(problem: Problem, checks: Iterable[Preflight]) -> list[DeclaredCase]:
    """In the order of the text; without a finished preflight the names that the text says."""
    weights = declared_weights(problem.source)
    found = {name: DeclaredCase(name, (), (), weights.get(name, 0.0)) for name in declared_cases(problem.source)}
    for check in checks:
        for row in check.report.get("declared", ()):
            known = found.get(row["name"]) or DeclaredCase(row["name"], (), ())
            timed, why = row["name"] == check.report.get("case"), row.get("left_out")
            weighed = row.get("weight") and not why
            said = (
                _("not asked on")
                if why and not timed
                else _("correctness on")
                if not (timed or weighed)
                else _("times modelled on")
                if check.device.basis is Basis.MODELLED
                else _("timed on")
            )
            uses = (*known.uses, (_named(check.device), said))
            inputs, weight = row.get("inputs") or known.inputs, float(row.get("weight") or known.weight)
            found[row["name"]] = replace(known, inputs=inputs, uses=uses, weight=weight)
    return list(found.values())


def flaws(checks: Iterable[Preflight]) -> list[dict[str, Any]]:
    """What the preflights found, each once, the gravest first, with the devices that found it."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for check in checks:
        for flaw in check.report.get("flaws", ()):
            row = found.setdefault((flaw["code"], flaw["message"]), {**flaw, "devices": []})
            row["devices"].append(check.device.name)
    return sorted(found.values(), key=lambda flaw: not flaw["flags"])
