"""The times of one evaluation with their raw samples: as a table, as a picture, as files."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from adaexplore_site.core.plots import Strips, Times, strips
from judge.evaluations.models import Evaluation, Measurement
from judge.problems.models import flag_codes
from judge.sources.highlighting import visible
from judge.templatetags.units import microseconds
from judge.values import Basis, Subject

SUBJECTS = {
    Subject.CANDIDATE: "this kernel",
    Subject.INCUMBENT: "previous best",
    Subject.EAGER: "eager",
    Subject.COMPILE: "torch.compile",
    Subject.AUTOTUNE: "torch.compile, max-autotune",
}
_KINDS = {Subject.CANDIDATE: "best", Subject.INCUMBENT: "incumbent", Subject.EAGER: "eager"}


def measurements(evaluation: Evaluation) -> list[Measurement]:
    """Every subject with its samples, the kernel first. One query."""
    rows = {row.subject: row for row in evaluation.measurements.all()}
    return [rows[subject] for subject in SUBJECTS if subject in rows]


def slim_measurements(evaluation: Evaluation | None) -> list[Measurement]:
    """The same without samples, for a summary."""
    if evaluation is None:
        return []
    rows = {row.subject: row for row in evaluation.measurements.defer("samples_us")}
    return [rows[subject] for subject in SUBJECTS if subject in rows]


def timings(rows: Iterable[Measurement]) -> list[dict[str, Any]]:
    """Label and row of each subject, in the order given."""
    return [{"label": SUBJECTS[Subject(row.subject)], "row": row} for row in rows]


_CIRCUMSTANCES = {
    "l2": "L2 cache",
    "order": "order",
    "launch_gaps": "gaps between launches",
    "precision": "precision",
    "host_us": "CPU time per call, µs",
    "sm_clock_mhz": "SM clock, MHz",
    "throttled": "throttled",
    "dropped_pairs": "pairs left out",
    "empty_us": "empty measurement, µs",
    "target": "modelled for",
    "launches": "launches",
    "triton_launches": "of them its own kernels",
    "unique_bytes": "bytes moved",
}


def circumstances(rows: Iterable[Measurement]) -> list[tuple[str, str]]:
    """How the kernel's own time came about: (name, value)."""
    found: list[tuple[str, str]] = []
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
            SUBJECTS[Subject(row.subject)],
            _KINDS.get(Subject(row.subject), "compile"),
            () if row.basis == Basis.MODELLED.value else row.samples_us,
            row.low_us,
            row.median_us,
            row.high_us,
        )
        for row in rows
    ]
    return strips(subjects, microseconds)


def samples_csv(rows: Iterable[Measurement]) -> str:
    """One line per sample: subject, basis, method, number, microseconds."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["subject", "basis", "method", "sample", "us"])
    for row in rows:
        for number, us in enumerate(row.samples_us):
            writer.writerow([row.subject, row.basis, row.method, number, repr(float(us))])
    return out.getvalue()


def samples_document(evaluation: Evaluation, rows: Iterable[Measurement]) -> dict[str, Any]:
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
    }
