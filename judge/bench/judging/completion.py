"""How an evaluation can end early: one exception with the verdict, and what each fault of a subject means."""

from __future__ import annotations

from pathlib import Path

from judge.bench.exchange.contact import SubjectFailed
from judge.bench.foreign.faults import describe_fault, kind_of
from judge.bench.foreign.sources import LoadError
from judge.bench.foreign.whereabouts import KEEP_IN_RANGE, DeviceLost
from judge.values import BASELINES, Verdict


class Ended(Exception):
    """The evaluation is over; what a pass needs is not there."""

    def __init__(self, verdict: Verdict, stage: str, reason: str, message: str) -> None:
        super().__init__(f"{verdict}: {reason}")
        self.verdict = verdict
        self.stage = stage
        self.reason = reason
        self.message = message
        self.subject = "candidate"  # the child it is about
        self.case = ""  # of get_cases(), where that is not the evaluated one


def in_case(ended: Ended, case: str, stage: str) -> Ended:
    """The same ending as it is told of another case than the evaluated one."""
    told = Ended(ended.verdict, stage, ended.reason, f"in case {case!r} of get_cases(): {ended.message}")
    told.subject, told.case = ended.subject, case
    return told


_PLACES = {
    "load": "the import",
    "construct": "ModelNew(...)",
    "parameters": "load_reference_state() or prepare()",
    "forward": "ModelNew.forward",
    "timed": "ModelNew.forward",
    "burst_ready": "ModelNew.forward",
    "burst_capture": "ModelNew.forward",
    "burst": "ModelNew.forward",
}
_LOAD_STEPS = {
    "load": "load.import",
    "arena": "load.construct",
    "construct": "load.construct",
    "parameters": "load.params",
}
_WIDER_HINT = "keep float64 throughout: accumulators, constants and intermediate results"
_IEEE_HINT = "ask for IEEE arithmetic: tl.dot(a, b, input_precision='ieee'), and keep torch's TF32 switches off"


def of_subject(failed: SubjectFailed, stage: str) -> Exception:
    """What a child's fault means, by its name: "eager", "compile#2", "incumbent", else it ran the candidate.

    The incumbent's own fault is nobody's here: it is given back as it is.
    """
    role = failed.subject.partition("#")[0]
    if role in BASELINES:
        return of_baseline(failed)
    return failed if role == "incumbent" else of_candidate(failed, stage)


def of_candidate(failed: SubjectFailed, stage: str) -> Ended:
    """What the candidate's fault means for the verdict. `stage` is the one the referee was in."""
    ended = _of_candidate(failed, stage)
    ended.subject = failed.subject
    return ended


def _of_candidate(failed: SubjectFailed, stage: str) -> Ended:
    kind, message = failed.kind, failed.message
    loading = failed.doing in _LOAD_STEPS
    place = _PLACES.get(failed.doing, failed.doing)
    prefix = "load" if loading else "run"
    if kind == "died":
        return Ended(Verdict.CRASHED, stage, f"{prefix}.died", f"{place} ended the candidate's process")
    if kind == "too_large":
        return Ended(Verdict.REFUSED_PROBLEM, stage, "problem.unsupported", message)
    if kind == "garbage":
        return Ended(Verdict.DISHONEST, stage, "tamper.channel", f"the candidate broke the protocol: {message}")
    if kind == "touched":
        text = f"the candidate replaced parts of the harness that runs it: {message}; leave clocks and judge alone"
        return Ended(Verdict.DISHONEST, stage, "tamper.harness", text)
    if kind == "timeout":
        return Ended(Verdict.TIMED_OUT, stage, f"{prefix}.timeout", f"{place} of the candidate gave {message}")
    if kind == "oom":
        return Ended(Verdict.OUT_OF_MEMORY, stage, f"{prefix}.oom", message)
    if kind in ("compile", "resources"):
        reason = failed.reason if failed.reason.startswith("compile.") else ""
        code = reason or ("compile.resources" if kind == "resources" else "compile.error")
        return Ended(Verdict.COMPILE_FAILED, "compile", code, message)
    if kind == "load" or loading:
        reason = failed.reason or _LOAD_STEPS.get(failed.doing, "load.import")
        verdict = Verdict.BAD_SOURCE if reason.startswith("source.") else Verdict.LOAD_FAILED
        return Ended(verdict, stage, reason, message)
    if kind == "bounds":
        return Ended(Verdict.CRASHED, stage, "run.out_of_bounds", message)
    if kind == "unsupported":
        return Ended(Verdict.UNSUPPORTED, stage, "run.unsupported", message)
    return Ended(Verdict.CRASHED, stage, "run.exception", message)


def of_baseline(failed: SubjectFailed) -> Ended:
    """A baseline runs the problem's code alone: what fails there is the problem's doing.

    Of one that died only the runner knows how (`problem.died`).
    """
    reason, text = {
        "timeout": ("problem.timeout", f"the reference itself failed as a baseline: {failed.message}"),
        "died": ("problem.died", f"the reference ended its process as the {failed.subject} baseline"),
        "touched": (
            "problem.tampers",
            f"the problem's module replaces parts of the harness that runs it: {failed.message}",
        ),
        "oom": ("problem.memory", f"the reference found too little memory as a baseline: {failed.message}"),
        "garbage": ("problem.tampers", f"the problem's module speaks for the harness that runs it: {failed.message}"),
        "too_large": ("problem.unsupported", failed.message),
    }.get(failed.kind, ("problem.raises", f"the reference itself failed as a baseline: {failed.message}"))
    ended = Ended(Verdict.REFUSED_PROBLEM, "timing", reason, text)
    ended.subject = failed.subject
    return ended


def of_reference(error: Exception, path: Path, place: str) -> Ended:
    """What the reference in the referee raised, its own frames only. `place` is where its code was last."""
    reason, message = "problem.raises", f"the reference raised {describe_fault(error, path)['message']}"
    if kind_of(error) == "oom":
        reason, message = "problem.memory", f"the reference: {place} needs more memory than this device may use"
    elif isinstance(error, LoadError):
        message = error.message
    return Ended(Verdict.REFUSED_PROBLEM, "problem", reason, message)


def broken_device(lost: DeviceLost, stage: str) -> Ended:
    """The reference left the referee without a working GPU: the problem's fault, and the end of this referee."""
    return Ended(Verdict.REFUSED_PROBLEM, stage, "problem.raises", f"the reference: {lost}. {KEEP_IN_RANGE}")


def lower_precision(kind: str, found: float, limit: float, *, near: float | None, switched: list[str]) -> Ended:
    """Right only in a coarser format than the policy allows.

    `found` and `limit`: error and allowed error on full inputs; `near`: error once inputs and parameters are rounded
    to the format, None when the outputs themselves gave it away; `switched`: torch's switches that were turned.
    """
    code = {"tf32": "precision.tf32", "float32": "precision.single"}.get(kind, "precision.half")
    proof = (
        "every output fits the format" if near is None else f"{near:.2e} once inputs and parameters are rounded to it"
    )
    hint = _WIDER_HINT if kind == "float32" else _IEEE_HINT
    turned = f"; it turned {', '.join(switched)}" if switched else ""
    return Ended(
        Verdict.LOWER_PRECISION,
        "precision",
        code,
        f"right only at {kind} precision: error {found:.2e} of the output's spread, allowed {limit:.2e}; "
        f"{proof}{turned}; {hint}",
    )
