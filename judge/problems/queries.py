"""Problems as pages and the API read them: rows, details, preflights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import Count, F, Max, OuterRef, Q, QuerySet, Subquery
from django.db.models.fields.json import KeyTextTransform
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.core.plots import Roof, RooflinePlot, roofline_plot
from judge.devices.models import Device
from judge.devices.services import served_devices
from judge.evaluations.beside import baseline_text, gradients_text, numerics_text
from judge.evaluations.models import MAY_BE_BEST, Evaluation, Measurement
from judge.problems.models import Problem
from judge.problems.preflight import Preflight
from judge.sources.checks import declared_cases, declared_weights
from judge.templatetags.units import flop_rate
from judge.values import ALTERNATIVES, BASELINES, Basis, Gradients, Library, Mode, Policy, Subject

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
    for row in rows:
        row.bests = [found[number] for number in wanted[row.pk] if number in found]  # type: ignore[attr-defined]
        eager = {device.name: _number(getattr(row, f"eager_{device.pk}")) for device in devices}
        row.baselines = {name: us for name, us in eager.items() if us is not None}  # type: ignore[attr-defined]
    return list(rows)


def _number(value: object) -> float | None:
    """A number out of JSON: PostgreSQL gives text and NULL, SQLite a number and the text "null"."""
    return None if value in (None, "null") else float(str(value))


MOST_KERNELS = 300  # drawn in a plot
FASTEST = 5  # listed beside it
SUBJECTS = [one.subject for one in BASELINES.values()]
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


@dataclass(frozen=True)
class Baseline:
    """Time of one baseline, with its evidence; `median_us` None when nobody has timed it."""

    label: StrOrPromise
    median_us: float | None = None
    low_us: float | None = None
    high_us: float | None = None
    n: int | None = None  # None when modelled
    at: datetime | None = None
    modelled: bool = False
    evaluation_id: int | None = None  # where it was measured; None: by the preflight
    reach: float | None = None  # share of the GPU's bound, of 1
    why_not: str = ""  # why nobody has timed it, where that is no matter of time
    stale: bool = False  # the device has drifted since: it is measured again with the next evaluation


@dataclass(frozen=True)
class Kernel:
    """A candidate that passed, with its time and the share of the GPU's bound that it reaches (of 1)."""

    evaluation: Evaluation
    median_us: float
    reach: float | None


@dataclass(frozen=True)
class Cost:
    """A problem on one device: what the preflight counted, what the judge has timed since."""

    check: Preflight
    baselines: tuple[Baseline, ...]
    fastest: tuple[Kernel, ...]
    kernels: int
    plot: RooflinePlot | None = None

    @property
    def device(self) -> Device:
        return self.check.device

    @property
    def modelled(self) -> bool:
        return self.device.basis is Basis.MODELLED

    @property
    def roofline(self) -> dict[str, Any]:
        return self.check.report.get("roofline") or {}

    @property
    def intensity(self) -> float | None:
        """FLOP per byte that must move."""
        flops, moved = self.check.report.get("flops"), self.check.report.get("compulsory_bytes")
        return flops / moved if isinstance(flops, int | float) and moved else None


def costs(problem: Problem, checks: Sequence[Preflight]) -> list[Cost]:
    """One per device that has a finished report. Three queries, however many devices and kernels there are."""
    decided = [check for check in checks if check.decided and check.report.get("flops") is not None]
    if not decided:
        return []
    rows = Measurement.objects.filter(
        evaluation__problem=problem, evaluation__device__in=[check.device for check in decided]
    )
    slim = rows.select_related("evaluation").defer(
        "samples_us", "detail", "evaluation__source", "evaluation__report", "evaluation__message"
    )
    last = rows.filter(subject__in=SUBJECTS).order_by().values("evaluation__device", "subject")
    newest = slim.filter(pk__in=last.annotate(last=Max("pk")).values("last"))
    baselines = {(row.evaluation.device_id, row.subject): row for row in newest}
    kernels: dict[int, list[Measurement]] = {check.device.pk: [] for check in decided}
    for row in slim.filter(subject=Subject.CANDIDATE).order_by("median_us", "pk")[:MOST_KERNELS]:
        kernels[row.evaluation.device_id].append(row)
    return [_cost(check, baselines, kernels[check.device.pk]) for check in decided]


def _cost(check: Preflight, timed: dict[tuple[int, str], Measurement], kernels: list[Measurement]) -> Cost:
    bound_us = (check.report.get("roofline") or {}).get("bound_us")

    def reach(us: float | None) -> float | None:
        return bound_us / us if bound_us and us else None

    if check.device.pooled:  # times of two GPUs are not compared: each GPU of a class has a list of its own
        kernels = sorted(kernels, key=lambda row: row.evaluation.gpu)
    lists = groupby(kernels, key=lambda row: row.evaluation.gpu if check.device.pooled else "")
    rows = [row for _gpu, group in lists for row in islice(group, FASTEST)]
    fastest = [Kernel(row.evaluation, row.median_us, reach(row.median_us)) for row in rows]
    found = [_baseline(check, Subject(name), timed.get((check.device.pk, name))) for name in SUBJECTS]
    since = check.device.baselines_at
    baselines = tuple(
        replace(one, reach=reach(one.median_us), stale=bool(since and one.at and one.at < since)) for one in found
    )
    return Cost(check, baselines, tuple(fastest), len(kernels), _plot(check, baselines, kernels))


def _baseline(check: Preflight, subject: Subject, row: Measurement | None) -> Baseline:
    label = baseline_text(subject)
    if row is not None:
        modelled = row.basis == Basis.MODELLED.value
        figures = (row.median_us, row.low_us, row.high_us, None if modelled else row.n)
        return Baseline(label, *figures, row.evaluation.created_at, modelled, row.evaluation_id)
    found = check.report.get("eager") if subject is Subject.EAGER else None
    if not found:
        setting = next((one.setting for one in ALTERNATIVES if one.subject is subject), "")
        unasked = setting and not getattr(settings, setting)
        return Baseline(label, why_not=gettext("only with %(setting)s=1") % {"setting": setting} if unasked else "")
    at = (check.report.get("environment") or {}).get("at")
    return Baseline(
        label,
        found["median_us"],
        found["low_us"],
        found["high_us"],
        found["n"] or None,
        datetime.fromisoformat(at) if at else None,
        bool(found.get("modelled")),
    )


def _plot(check: Preflight, baselines: Iterable[Baseline], kernels: Sequence[Measurement]) -> RooflinePlot | None:
    roofline = check.report.get("roofline")
    if not roofline:
        return None
    report = check.report
    roof = Roof(report["flops"], report["compulsory_bytes"], roofline["dram_gb_s"], roofline["peak_tflops"])
    named = [
        (str(one.label), "compile" if number else "eager", one.median_us)
        for number, one in enumerate(baselines)
        if one.median_us
    ]
    best = next((row for row in kernels if row.evaluation.may_be_best), None)
    if best is not None:
        named.append((gettext("fastest kernel"), "best", best.median_us))
    others = [row.median_us for row in kernels if row is not best]
    return roofline_plot(roof, named, others, flop_rate)


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
                _("not asked on") if why and not timed else _("timed on") if timed or weighed else _("correctness on")
            )
            uses = (*known.uses, (check.device.name, said))
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
