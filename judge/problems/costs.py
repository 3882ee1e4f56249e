"""What a problem costs on each device: its baselines, its fastest kernels, and how far both are from the bound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import Max
from django.utils.translation import gettext

from adaexplore_site.core.plots import Roof, RooflinePlot, roofline_plot
from judge.devices.models import Device
from judge.evaluations.beside import baseline_text, beating
from judge.evaluations.cases import Cases, cases_of
from judge.evaluations.models import Evaluation, Measurement
from judge.problems.models import Problem
from judge.problems.preflight import Preflight
from judge.sources.checks import declared_weights
from judge.templatetags.units import flop_rate
from judge.values import ALTERNATIVES, BASELINES, Basis, Subject

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

MOST_KERNELS = 300  # drawn in a plot
FASTEST = 5  # listed beside it
SUBJECTS = [one.subject for one in BASELINES.values()]


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
    beats: bool  # whether it is faster than every baseline it was timed beside
    cases: Cases | None = None  # its declared cases, where they have weights


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
    def won(self) -> bool:
        """Whether one of the listed kernels beat PyTorch; else they are the closest."""
        return any(row.beats for row in self.fastest)

    @property
    def weighted(self) -> Kernel | None:
        """The first listed kernel, where the problem's cases have weights."""
        return next((row for row in self.fastest if row.cases), None)

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
    """One per device that has a finished report. Five queries, however many devices and kernels there are."""
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
    listed = {check.device.pk: _listed(check, kernels[check.device.pk]) for check in decided}
    ids = [row.evaluation_id for rows in listed.values() for row in rows]
    evaluations = Evaluation.objects.filter(pk__in=ids)
    beat = beating(evaluations)
    whole = evaluations.defer("source").in_bulk() if ids and any(declared_weights(problem.source).values()) else {}
    cases = {pk: cases_of(row) for pk, row in whole.items()}
    return [
        _cost(check, baselines, kernels[check.device.pk], listed[check.device.pk], beat, cases) for check in decided
    ]


def _listed(check: Preflight, kernels: list[Measurement]) -> list[Measurement]:
    """The fastest of them; of a device class, each GPU has a list of its own: times of two GPUs are not compared."""
    if check.device.pooled:
        kernels = sorted(kernels, key=lambda row: row.evaluation.gpu)
    lists = groupby(kernels, key=lambda row: row.evaluation.gpu if check.device.pooled else "")
    return [row for _gpu, group in lists for row in islice(group, FASTEST)]


def _cost(
    check: Preflight,
    timed: dict[tuple[int, str], Measurement],
    kernels: list[Measurement],
    listed: list[Measurement],
    beat: set[int],
    cases: dict[int, Cases | None],
) -> Cost:
    bound_us = (check.report.get("roofline") or {}).get("bound_us")

    def reach(us: float | None) -> float | None:
        return bound_us / us if bound_us and us else None

    fastest = [
        Kernel(
            row.evaluation, row.median_us, reach(row.median_us), row.evaluation_id in beat, cases.get(row.evaluation_id)
        )
        for row in listed
    ]
    found = [_baseline(check, Subject(name), timed.get((check.device.pk, name))) for name in SUBJECTS]
    since = check.device.baselines_at
    baselines = tuple(
        replace(one, reach=reach(one.median_us), stale=bool(since and one.at and one.at < since)) for one in found
    )
    return Cost(check, baselines, tuple(fastest), len(kernels), _plot(check, baselines, kernels, beat))


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


def _plot(
    check: Preflight, baselines: Iterable[Baseline], kernels: Sequence[Measurement], beat: set[int]
) -> RooflinePlot | None:
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
        won = best.evaluation_id in beat
        label, style = (gettext("fastest kernel"), "best") if won else (gettext("closest kernel"), "incumbent")
        named.append((label, style, best.median_us))
    others = [row.median_us for row in kernels if row is not best]
    return roofline_plot(roof, named, others, flop_rate)
