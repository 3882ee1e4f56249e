"""What is shown of one evaluation, read from its row, its report and its measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from judge.evaluations.beside import SUBJECTS
from judge.evaluations.cases import ROWS, cases_of, measure_of
from judge.evaluations.conditions import environment, gradients, left_out, numerics, sandbox
from judge.evaluations.measures import Measure
from judge.evaluations.models import Evaluation, Measurement
from judge.evaluations.samples import timings
from judge.sources.highlighting import visible
from judge.values import ALTERNATIVES, SpeedCall, Subject

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

TEXT_CHARS = 200_000  # of a log shown on a page
MESSAGE_CHARS = 20_000
CALLS: dict[SpeedCall, StrOrPromise] = {
    SpeedCall.FASTER: _("faster: the whole interval is beyond 1 %, and beyond the resolution of the clock"),
    SpeedCall.SLOWER: _("slower: the whole interval is beyond 1 %, and beyond the resolution of the clock"),
    SpeedCall.SAME: _("the same: the whole interval is within 1 %, or within the resolution of the clock"),
    SpeedCall.AMBIGUOUS: _("ambiguous: the paired measurements are inconclusive"),
    SpeedCall.UNSTABLE: _("unstable: measurements in fresh processes contradict each other"),
    SpeedCall.NONE: "",
}
STAGES = {
    "parse": _("Parse"),
    "import": _("Import"),
    "compile": _("Compile"),
    "load": _("Load"),
    "smoke": _("Smoke"),
    "correctness": _("Correctness"),
    "cases": _("Other declared cases"),
    "cases.timing": _("Timing of other cases"),
    "timing": _("Timing"),
    "audit": _("Audit"),
    "run": _("Run"),
}
AUDIT = {
    "audit.state": _("Repeated in a fresh process"),
    "audit.launches": _("Kernels without effect or that fail"),
    "audit.share": _("Time in its own kernels"),
    "audit.sealed": _("Sealed cases"),
    "audit.roofline": _("Roofline"),
    "audit.text": _("Names in its text"),
}
FINDINGS = {
    "time.trusted": _("Confirmed by the judge's own clock"),
    "time.unchecked": _("Not checked by the judge's own clock"),
    "time.draws": _("Random outputs not checked: no speedup"),
    "time.confirmed": _("Measured again"),
    "case.slower": _("Slower than eager in a declared case"),
    "time.parts": _("Forward and backward"),
    "time.processes.speedup": _("Measured in several processes, over eager"),
    "time.processes.rival": _("Measured in several processes, over the previous best"),
    "time.no_incumbent": _("Not compared with the previous best"),
    "library.share": _("Libraries do part of the work"),
    "library.fallback": _("Falls back to other code than its own kernels"),
    "library.compiler": _("Uses torch.compile"),
    "library.inside": _("Kernels call Python where they are interpreted"),
    "kernel.decoy": _("Decoy kernel"),
    "profile.kernels": _("GPU time by kernel"),
    "profile.unavailable": _("No profile"),
    "precision.bits": _("Bits kept in products"),
    "precision.unclear": _("Precision cannot be told"),
    "run.not_bitwise": _("Not bitwise reproducible"),
    "shape.guarded": _("Specialised for these shapes: refuses others"),
    "shape.unsafe": _("Specialised for these shapes: wrong for others"),
    "audit.files": _("Files left behind"),
    "compile.capped": _("Not every configuration was compiled"),
    "compile.incomplete": _("Not every kernel was compiled ahead of time"),
}


def speeds(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Over eager first, then over torch.compile and the best before it, as far as they were measured: over what, the
    measure, its call (a SpeedCall) and what that says of the interval."""
    report = evaluation.report
    headline = Measure.of(evaluation)
    eager = None if headline is None else replace(headline, over_shipped=None, over_fastest=None)  # they are here, too
    rows: list[tuple[Measure | None, Any, StrOrPromise]] = [(eager, report.get("speedup"), SUBJECTS[Subject.EAGER])]
    compared = {**{one.key: SUBJECTS[one.subject] for one in ALTERNATIVES}, "versus_incumbent": _("the previous best")}
    rows += [(measure_of(report.get(key)), report.get(key), over) for key, over in compared.items()]
    found = []
    for measure, row, over in rows:
        if measure is not None:
            call = SpeedCall((row or {}).get("call") or "")
            found.append({"over": over, "measure": measure, "call": call.value, "text": CALLS[call]})
    return found


def case_said(report: Mapping[str, Any]) -> str:
    """The case that was judged, `plain constants` without one; empty where the report does not say."""
    if "case" not in report:
        return ""
    return visible(str(report["case"])) if report["case"] else gettext("plain constants")


def over_compile(evaluation: Evaluation | None) -> Measure | None:
    """The speedup over torch.compile, when it was measured."""
    return measure_of(evaluation.report.get("speedup_compile")) if evaluation else None


def evaluation_context(evaluation: Evaluation, rows: Sequence[Measurement]) -> dict[str, Any]:
    """What every page that shows an evaluation needs, for the partials of `templates/evaluations/`."""
    report = evaluation.report
    cases = report.get("cases", ())
    stage_lines, audit = stages(evaluation)
    return {
        "evaluation": evaluation,
        "message": visible(evaluation.message[:MESSAGE_CHARS]),
        "reason": evaluation.reason,
        "timings": timings(rows),
        "weighted": cases_of(evaluation),
        "over_compile": over_compile(evaluation),
        "stages": stage_lines,
        "audit": audit,
        "findings": findings(evaluation),
        "cases": cases[:ROWS],
        "cases_hidden": max(0, len(cases) - ROWS),
        "kernels": kernels(evaluation),
        "environment": environment(evaluation),
        "numerics": numerics(evaluation),
        "gradients": gradients(evaluation),
        "left_out": left_out(evaluation),
        "layers": sandbox(report.get("environment", {})),
    }


def stages(evaluation: Evaluation) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(stages, checks of the audit), each with its share of the time of all stages, in per cent. The audit's checks are
    part of its stage."""
    rows = evaluation.report.get("stages", ())[:ROWS]
    total = sum(row.get("wall_ms") or 0.0 for row in rows if row["name"] not in AUDIT) or 1.0
    lines = [
        {
            "name": row["name"],
            "label": (STAGES | AUDIT).get(row["name"], row["name"].replace("_", " ").capitalize()),
            "state": row["state"],
            "wall_ms": row.get("wall_ms") or 0.0,
            "detail": visible(str(row.get("detail", ""))[:2000]),
            "fix": visible(str(row.get("fix", ""))[:2000]),
            "share": round(100 * (row.get("wall_ms") or 0.0) / total, 2),
        }
        for row in rows
    ]
    return [line for line in lines if line["name"] not in AUDIT], [line for line in lines if line["name"] in AUDIT]


def sealed_check(stages: Any) -> str:
    """What came of the sealed cases, out of a report's stages: `3 right`, `failed`; empty where none were tried."""
    rows = [row for row in stages if isinstance(row, dict)] if isinstance(stages, list | tuple) else []
    row = next((row for row in rows if row.get("name") == "audit.sealed"), None)
    if row is None or row.get("state") == "skipped":
        return ""
    detail = visible(str(row.get("detail", ""))[:100])
    if row.get("state") != "ok":
        return str(row.get("state"))[:20]
    return detail if detail[:1].isdigit() else ""  # else the problem has none


def closest_round(cases: Any) -> tuple[float, float] | None:
    """(error, what was allowed) of the round that came closest to its limit; None where no round says both."""
    known = [
        (float(row["error"]), float(row["allowed"]))
        for row in (cases if isinstance(cases, list | tuple) else ())
        if isinstance(row, dict) and isinstance(row.get("error"), int | float) and row.get("allowed")
    ]
    return max(known, key=lambda pair: pair[0] / pair[1], default=None)


def findings(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Code, title and message of what was noticed; a profile with its kernels as rows."""
    found = []
    for row in evaluation.report.get("findings", ())[:ROWS]:
        code, data = visible(str(row.get("code", "")))[:100], row.get("data") or {}
        found.append(
            {
                "code": code,
                "title": FINDINGS.get(code, code.replace(".", ": ").replace("_", " ").capitalize()),
                "message": visible(str(row.get("message", ""))[:4000]),
                "profile": _profile(data) if code == "profile.kernels" else [],
                "parts": _parts(data) if code == "time.parts" else [],
            }
        )
    return found


_PARTS = {"forward_us": _("Forward"), "backward_us": _("Backward"), "both_us": _("Both")}


def _parts(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Forward, backward and both in microseconds, of the kernel and of eager; what is malformed is left out."""
    rows = [(title, data.get(key)) for key, title in _PARTS.items()]
    return [
        {"title": title, "us": row[0], "eager_us": row[1], "ratio": row[1] / row[0] if min(row) > 0 else None}
        for title, row in rows
        if isinstance(row, list) and len(row) == 2 and all(isinstance(us, int | float) for us in row)
    ]


def _profile(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows (name, microseconds, own) of a GPU's trace; what is malformed is left out."""
    rows = [row for row in data.get("kernels", ()) if isinstance(row, list) and len(row) == 3]
    total = sum(row[1] for row in rows if isinstance(row[1], int | float)) or 1.0
    return [
        {"name": str(name), "us": us, "own": bool(own), "share": us / total}
        for name, us, own in rows
        if isinstance(us, int | float)
    ]


def kernels(evaluation: Evaluation | None) -> list[dict[str, Any]]:
    """Launches as counted or compiled; both spellings of the counts are read."""
    if evaluation is None:
        return []
    return [
        {
            "name": visible(str(raw.get("name", ""))),
            "grid": raw.get("grid"),
            "warps": _first(raw, "num_warps", "warps"),
            "stages": _first(raw, "num_stages", "stages"),
            "registers": _first(raw, "regs", "registers"),
            "spills": raw.get("spills"),
            "shared_bytes": _first(raw, "shared_bytes", "shared"),
            "error": visible(str(raw.get("error") or "")),
        }
        for raw in evaluation.report.get("kernels", ())[:ROWS]
    ]


def _first(row: dict[str, Any], *names: str) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def log_of(evaluation: Evaluation | None) -> str:
    """What the candidate printed, without terminal codes' power."""
    return visible(str(evaluation.report.get("log", ""))[:TEXT_CHARS]) if evaluation else ""
