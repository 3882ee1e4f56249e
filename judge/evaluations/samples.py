"""The times behind an evaluation: its measurements on pages, as a plot, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy as _

from adaexplore_site.core.plots import Strips, Times, strips
from judge.evaluations.beside import SUBJECTS
from judge.evaluations.models import CaseMeasurement, Evaluation, Measurement
from judge.problems.models import flag_codes
from judge.sources.highlighting import visible
from judge.templatetags.units import microseconds
from judge.values import Basis, Subject

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

_KINDS = {Subject.CANDIDATE: "best", Subject.INCUMBENT: "incumbent", Subject.EAGER: "eager"}
_CIRCUMSTANCES: dict[str, StrOrPromise] = {
    "l2": _("L2 cache"),
    "order": _("order"),
    "launch_gaps": _("gaps between launches"),
    "precision": _("precision"),
    "host_us": _("CPU time per call, µs"),
    "cores": _("timed on processors"),
    "sm_clock_mhz": _("SM clock, MHz"),
    "throttled": _("throttled"),
    "stopped": _("ended since"),
    "dropped_pairs": _("pairs left out"),
    "empty_us": _("empty measurement, µs"),
    "target": _("modelled for"),
    "launches": _("launches"),
    "triton_launches": _("of them its own kernels"),
    "unique_bytes": _("bytes moved"),
}


def measurements(evaluation: Evaluation, *, samples: bool = True) -> list[Measurement]:
    """Every subject, the kernel first; without `samples` the raw samples stay where they are. One query."""
    found = evaluation.measurements.all() if samples else evaluation.measurements.defer("samples_us")
    rows = {row.subject: row for row in found}
    return [rows[subject] for subject in SUBJECTS if subject in rows]


def timings(rows: Iterable[Measurement]) -> list[dict[str, Any]]:
    """Label and row of each subject, in the order given."""
    return [{"label": SUBJECTS[Subject(row.subject)], "row": row} for row in rows]


def circumstances(rows: Iterable[Measurement]) -> list[tuple[StrOrPromise, str]]:
    """How the kernel's own time came about: (name, value)."""
    found: list[tuple[StrOrPromise, str]] = []
    detail: dict[str, Any] = next((row.detail for row in rows if row.subject == Subject.CANDIDATE), {})
    for key, name in _CIRCUMSTANCES.items():
        value = detail.get(key)
        if value not in (None, "", [], False):
            parts = value if isinstance(value, list) else [value]
            found.append((name, visible(" – ".join(map(_plain, parts)))[:300]))
    return found


def _plain(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}"


def samples_plot(rows: Sequence[Measurement]) -> Strips | None:
    """The raw samples of every subject over one axis; a modelled time has a range and no samples."""
    subjects = [
        Times(
            str(SUBJECTS[Subject(row.subject)]),
            _KINDS.get(Subject(row.subject), "compile"),
            () if row.basis == Basis.MODELLED.value else row.samples_us,
            row.low_us,
            row.median_us,
            row.high_us,
        )
        for row in rows
    ]
    return strips(subjects, microseconds)


def samples_csv(rows: Iterable[Measurement], others: Sequence[CaseMeasurement] = ()) -> str:
    """One line per sample: subject, basis, method, number, microseconds; where there are `others`, of other cases, the
    case, too, which is empty for the evaluated one."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["subject", "basis", "method", "sample", "us", *(["case"] if others else [])])
    for row in (*rows, *others):
        case = [getattr(row, "case", "")] if others else []
        for number, us in enumerate(row.samples_us):
            writer.writerow([row.subject, row.basis, row.method, number, repr(float(us)), *case])
    return out.getvalue()


def samples_document(
    evaluation: Evaluation, rows: Iterable[Measurement], others: Iterable[CaseMeasurement] = ()
) -> dict[str, Any]:
    """The samples with everything that says what they are worth."""
    problem, device = evaluation.problem, evaluation.device
    names = ("subject", "basis", "method", "n", "median_us", "low_us", "high_us", "samples_us", "detail")
    return {
        "evaluation": evaluation.pk,
        "problem": {
            "slug": problem.slug,
            "sha256": problem.source_hash,
            "state": problem.state,
            "flags": flag_codes(problem),
        },
        "candidate_hash": evaluation.candidate_hash,
        "device": {"name": device.name, "title": device.title, "arch": device.arch},
        "toolchain": evaluation.toolchain,
        "protocol": evaluation.protocol,
        "verdict": evaluation.verdict,
        "audit": evaluation.audit or "none",
        "judged_at": evaluation.created_at.isoformat(),
        "measurements": [{name: getattr(row, name) for name in names} for row in rows],
        "case_measurements": [{name: getattr(row, name) for name in ("case", *names)} for row in others],
    }
