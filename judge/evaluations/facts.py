"""What is shown of one evaluation, read from its row, its report and its measurements."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from adaexplore_site.core.plots import Strips, Times, strips
from judge.bench.processes.artefacts import artefact_key, kept_texts
from judge.evaluations.beside import gradients_text, numerics_text
from judge.evaluations.cases import cases_of
from judge.evaluations.cases import measure_of as measure_of
from judge.evaluations.measures import Measure
from judge.evaluations.models import CaseMeasurement, Evaluation, Measurement
from judge.evaluations.services import case_of
from judge.problems.models import flag_codes
from judge.sources.highlighting import visible
from judge.templatetags.units import byte_size, microseconds
from judge.values import ALTERNATIVES, BASELINES, Basis, Gradients, SpeedCall, Subject

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

TEXT_CHARS = 200_000  # of a log shown on a page
ROWS = 200
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
SUBJECTS: dict[Subject, StrOrPromise] = {
    Subject.CANDIDATE: _("this kernel"),
    Subject.INCUMBENT: _("previous best"),
    **{one.subject: _(one.label) for one in BASELINES.values()},
}
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
LEFT_OUT = "left out: "
PTX = ".ptx"
OPTIONS = ".json"
_AUTOTUNER = ".autotune.json"


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


def numerics(evaluation: Evaluation) -> tuple[str, list[tuple[str, str]]]:
    """(what they mean, torch's switches as they stood in the judge's process); the switches are unknown of old ones."""
    found = evaluation.report.get("environment", {}).get("numerics")
    rows = found if isinstance(found, dict) else {}
    shown = [(visible(str(name)), visible(str(value))[:40]) for name, value in rows.items() if name != "precision"]
    return numerics_text(evaluation.problem.numerics), shown[:ROWS]


def gradients(evaluation: Evaluation) -> str:
    """Of what gradients were asked, in words; empty where forward alone was judged."""
    asked = evaluation.problem.gradients
    return "" if asked is Gradients.NONE else gradients_text(asked)


def left_out(evaluation: Evaluation) -> list[tuple[StrOrPromise, str]]:
    """Baselines without a time, each with the reason."""
    found = evaluation.report.get("environment", {}).get("baselines")
    notes = found if isinstance(found, dict) else {}
    return [
        (SUBJECTS[one.subject], visible(str(notes[one.name]))[:2000].removeprefix(LEFT_OUT))
        for one in ALTERNATIVES
        if str(notes.get(one.name, "")).startswith(LEFT_OUT)
    ]


def environment(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Plain facts of the environment; sandbox, numerics and baselines have tables of their own."""
    found = {**evaluation.report.get("environment", {}), **({"GPU": evaluation.gpu} if evaluation.gpu else {})}
    return [
        (visible(str(name).replace("_", " ")), visible(_fact(str(name), value))[:2000])
        for name, value in found.items()
        if name not in {"sandbox", "children", "numerics", "baselines", "process_luck"} and value is not None
    ]


def _fact(name: str, value: object, depth: int = 2) -> str:
    """One line: a mapping as `name: value; ...` down to `depth`, a number whose name ends with `_bytes` as a size."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and name.endswith("_bytes"):
        return byte_size(value)
    if not isinstance(value, Mapping) or not depth:
        return str(value)
    suffix = "_bytes" if name.endswith("_bytes") else ""
    parts = [(str(key), _fact(f"{key}{suffix}", one, depth - 1)) for key, one in value.items() if one not in (None, {})]
    said = "; ".join(f"{key.removesuffix('_bytes').replace('_', ' ')}: {text}" for key, text in parts)
    return said if depth == 2 else f"({said})"


@dataclass(frozen=True)
class Layer:
    """A layer of the sandbox: its states, each with the processes that reported it ("" when all did)."""

    name: str
    states: tuple[tuple[str, str], ...]


def sandbox(found: dict[str, Any]) -> list[Layer]:
    """Layers of an environment's `children`, else of its `sandbox`."""
    children = {str(name): layers for name, layers in (found.get("children") or {}).items() if layers}
    if not children and found.get("sandbox"):
        children = {"": found["sandbox"]}
    layers: dict[str, dict[str, list[str]]] = {}
    for child, states in children.items():
        for name, state in states.items():
            layers.setdefault(str(name), {}).setdefault(str(state), []).append(child)
    return [
        Layer(name, tuple((state, "" if len(states) == 1 else ", ".join(who)) for state, who in states.items()))
        for name, states in layers.items()
    ]


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


def ptx_of(evaluation: Evaluation | None) -> str:
    """The PTX of an evaluation's kernels, each under its name; empty where none is kept.

    A child that ran the candidate wrote it, so it is a text to read and no evidence.
    """
    return "\n".join(f"// {name}\n{text.rstrip()}\n" for name, text in _texts(evaluation, PTX))


def options_of(evaluation: Evaluation | None) -> str:
    """What the compiler was given for each kernel and what it noted, one fact a line; empty where nothing is kept."""
    found = []
    for name, text in _texts(evaluation, OPTIONS):
        if name.endswith(_AUTOTUNER):
            continue
        try:
            facts = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(facts, dict):
            lines = [f"{key} = {json.dumps(value, sort_keys=True)}" for key, value in sorted(facts.items())]
            found.append("\n".join([f"# {name.removesuffix(OPTIONS)}", *lines, ""]))
    return "\n".join(found)


def _texts(evaluation: Evaluation | None, suffix: str) -> list[tuple[str, str]]:
    if evaluation is None or evaluation.elsewhere:
        return []
    problem = evaluation.problem
    case = case_of(problem, evaluation.device)
    key = artefact_key(evaluation.source, problem.spec(case).hash, case)
    return kept_texts(settings.DATA_DIR / "artefacts", evaluation.toolchain, key, suffix)
