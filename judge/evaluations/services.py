"""One verdict on one candidate: looked up by canonical hash first, judged otherwise, stored whole or not at all."""

from __future__ import annotations

import dataclasses
import math
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from django.conf import settings
from django.db import transaction

from adaexplore_site.core.text import storable, storable_text
from judge.bench.runner import Bench
from judge.devices.benches import toolchain_of, with_retries
from judge.devices.models import Device
from judge.devices.services import device_trusted
from judge.evaluations.beside import beside
from judge.evaluations.models import CaseMeasurement, Evaluation, Measurement, Race
from judge.problems.models import Problem, SealedSet
from judge.sources.checks import case_for, declared_cases
from judge.values import (
    ALTERNATIVES,
    PROTOCOL,
    UNCACHED,
    Job,
    JudgeError,
    Outcome,
    ProblemSpec,
    SpeedCall,
    Speedup,
    Timing,
    UnclearFault,
    Verdict,
    canonical_hash,
)
from judge.values.outcomes import UNCLEAR as UNCLEAR

REASON_CHARS = 300


@dataclass(frozen=True)
class Marks:
    """What is said of a kernel beside its verdict."""

    doubt: str = ""
    doubt_reason: str = ""
    retired: bool = False


def marks_of(**kernel: int | str) -> Marks:
    """The marks in force on a kernel, which `problem_id`, `device_id` and `candidate_hash` name."""
    rows = Evaluation.objects.filter(**kernel).order_by("-id").values_list("doubt", "doubt_reason", "retired")
    found = rows.first()
    return Marks(*found) if found else Marks()


def marks_locked(**kernel: int | str) -> Marks:
    """The marks in force, and nobody changes them or adds a verdict without them until the caller's transaction ends.

    Who locks runs too locks those before.
    """
    list(Evaluation.objects.filter(**kernel).select_for_update(no_key=True).order_by("pk").values_list("pk"))
    return marks_of(**kernel)


def marks_set(evaluation: Evaluation, before: Marks, after: Marks) -> None:
    """Write what differs on the kernel of `evaluation`, in the caller's transaction, which has locked its marks."""
    now = {**asdict(after), "doubt_reason": after.doubt_reason[:REASON_CHARS]}
    changed = {name: value for name, value in now.items() if asdict(before)[name] != value}
    if changed:
        Evaluation.objects.filter(**evaluation.kernel).update(**changed)


def evaluation_run(
    *,
    problem: Problem,
    device: Device,
    source: str,
    bench: Bench,
    beat: float | None = None,
    incumbent: str | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Evaluation, bool]:
    """(evaluation, reused). An equal candidate on the same problem, device, protocol and toolchain is not run again.

    `beat` is the speedup of the best so far and `incumbent` its source: whoever is faster is audited and measured
    beside it (None: every pass is audited). A known verdict that would be a best without an audit is judged again.
    Where the last self-test missed something nothing is audited, so nothing becomes a best.
    A JudgeError is retried twice and then stored as verdict `lost`; `lost` and `cancelled` are never reused.
    """
    toolchain = toolchain_of(bench)
    candidate = canonical_hash(source)
    beat = beat if device_trusted(device) else math.inf
    known = evaluation_known(problem=problem, device=device, candidate_hash=candidate, toolchain=toolchain)
    if known is not None and not wants_audit(known, beat):
        return known, True
    return _judged(problem, device, source, bench, beat, incumbent, clock), False


def evaluation_anew(
    *,
    problem: Problem,
    device: Device,
    source: str,
    bench: Bench,
    incumbent: str | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Evaluation:
    """Judge a candidate whatever is known of it, with fresh contents and an audit; with `incumbent` beside that kernel.

    Where the last self-test missed something nothing is audited. A JudgeError is retried twice, then stored as `lost`.
    A race that it loses is kept in its report alone: it counts once the other one has won in fresh processes.
    """
    everything = None if incumbent is None else 0.0  # beside another one: also confirmed in fresh processes if faster
    beat = everything if device_trusted(device) else math.inf
    return _judged(problem, device, source, bench, beat, incumbent, clock, losses=False)


def race_lost(evaluation: Evaluation) -> bool:
    """Whether its report says that it was slower than the one it was measured beside."""
    found = evaluation.report.get("versus_incumbent")
    return bool(found) and found.get("call") == SpeedCall.SLOWER.value


def _judged(
    problem: Problem,
    device: Device,
    source: str,
    bench: Bench,
    beat: float | None,
    incumbent: str | None,
    clock: Callable[[], float],
    *,
    losses: bool = True,
) -> Evaluation:
    case = case_of(problem, device)
    sealed = problem.sealed_set(case)
    spec = problem.spec(case, sealed)
    job = Job(
        id=uuid.uuid4().hex,
        problem=spec,
        candidate=source,
        limits=device.limits,
        beat=beat,
        incumbent=incumbent,
        baselines=frozenset(one.name for one in ALTERNATIVES if one.setting and getattr(settings, one.setting))
        if device.measures
        else frozenset(),
    )
    started = clock()
    try:
        outcome = with_retries(lambda: bench.evaluate(job))
    except JudgeError as error:
        wall_ms = (clock() - started) * 1000  # the device was taken all the same
        reason = UNCLEAR if isinstance(error, UnclearFault) else "judge.failed"
        outcome = Outcome(Verdict.LOST, stage="judge", reason=reason, message=str(error), wall_ms=wall_ms)
    return evaluation_store(
        problem=problem,
        device=device,
        source=source,
        toolchain=toolchain_of(bench),
        outcome=outcome,
        incumbent=incumbent,
        losses=losses,
        spec=spec,
        sealed_set=sealed,
    )


def candidate_compile(*, problem: Problem, device: Device, source: str, bench: Bench) -> None:
    """Keep a candidate's machine code for the evaluation to come, unless its verdict is known. Raises JudgeError."""
    known = evaluation_known(
        problem=problem, device=device, candidate_hash=canonical_hash(source), toolchain=toolchain_of(bench)
    )
    if known is None:
        spec = problem.spec(case_of(problem, device))
        bench.compile(Job(uuid.uuid4().hex, spec, source, limits=device.limits))


def evaluation_known(*, problem: Problem, device: Device, candidate_hash: str, toolchain: str) -> Evaluation | None:
    """The newest reusable verdict on an equal candidate, or None."""
    return (
        Evaluation.objects.filter(
            problem=problem,
            device=device,
            candidate_hash=candidate_hash,
            protocol=PROTOCOL,
            toolchain=toolchain,
        )
        .exclude(verdict__in=[verdict.value for verdict in UNCACHED])
        .order_by("-id")
        .first()
    )


def wants_audit(known: Evaluation, beat: float | None) -> bool:
    """Whether a stored pass would be a best although nobody has audited it."""
    if known.speedup is None or known.audit:
        return False
    return beat is None or known.speedup > beat


def case_of(problem: Problem, device: Device) -> str | None:
    """The case that the device's preflight used; without a finished preflight, the one its kind prefers."""
    report = problem.report_for(device.name)
    if report and "case" in report:
        return report["case"] if isinstance(report["case"], str) else None
    return case_for(device.kind, declared_cases(problem.source))


def evaluation_store(
    *,
    problem: Problem,
    device: Device,
    source: str,
    toolchain: str,
    outcome: Outcome,
    incumbent: str | None = None,
    losses: bool = True,
    spec: ProblemSpec | None = None,
    sealed_set: SealedSet | None = None,
    gpu: str = "",
) -> Evaluation:
    """Write an outcome whole: the evaluation, every sample behind its numbers, and the race with `incumbent`, a lost
    one with `losses` only. Marks of the kernel go over to it. With `spec` the report says which case was judged; an
    audited one remembers the sealed cases that went with it. `gpu` is the UUID of the GPU, where that is not the
    device's own."""
    report = outcome.to_json()
    if spec is not None:
        report["case"] = spec.case
    for timing in (one for row in (report, *report.get("weighted", ())) for one in row["timings"]):
        timing.pop("samples_us")  # kept once, in Measurement and CaseMeasurement
    speedup, candidate = outcome.speedup, canonical_hash(source)
    with transaction.atomic():
        marks = marks_locked(problem_id=problem.pk, device_id=device.pk, candidate_hash=candidate)
        evaluation = Evaluation.objects.create(
            problem=problem,
            device=device,
            candidate_hash=candidate,
            **dataclasses.asdict(marks),
            source=storable_text(source),
            protocol=PROTOCOL,
            toolchain=toolchain,
            gpu=(gpu or str(device.facts.get("uuid") or ""))[:80] if device.is_gpu else "",
            verdict=outcome.verdict.value,
            stage=storable_text(outcome.stage)[:20],
            reason=storable_text(outcome.reason)[:60],
            message=storable_text(outcome.message),
            loads=outcome.loads,
            audit=outcome.audit.value,
            sealed_set=sealed_set if outcome.audit else None,
            report=storable(report),
            speedup=speedup.value if speedup else None,
            speedup_low=speedup.low if speedup else None,
            speedup_high=speedup.high if speedup else None,
            speedup_n=speedup.n if speedup else None,
            basis=speedup.basis.value if speedup else "",
            **dataclasses.asdict(beside(report, problem.policy.get("precision", ""))),
            wall_ms=outcome.wall_ms,
        )
        Measurement.objects.bulk_create(
            Measurement(evaluation=evaluation, **_samples(timing)) for timing in outcome.timings
        )
        CaseMeasurement.objects.bulk_create(
            CaseMeasurement(evaluation=evaluation, case=storable_text(row.case), **_samples(timing))
            for row in outcome.weighted
            for timing in row.timings
        )
        found = outcome.versus_incumbent
        if incumbent is not None and found is not None and (losses or found.call is not SpeedCall.SLOWER):
            _race_store(evaluation, canonical_hash(incumbent), found)
    return evaluation


def _samples(timing: Timing) -> dict[str, Any]:
    """Fields of a row of samples."""
    return {
        "subject": timing.subject.value,
        "basis": timing.basis.value,
        "method": timing.method[:40],
        "samples_us": list(timing.samples_us),
        "n": timing.n,
        "median_us": timing.median_us,
        "low_us": timing.low_us,
        "high_us": timing.high_us,
        "detail": storable(timing.detail),
    }


def _race_store(evaluation: Evaluation, rival: str, found: Speedup) -> None:
    """A kernel raced against itself decides nothing about two."""
    if rival == evaluation.candidate_hash or not found.call:
        return
    Race.objects.create(
        problem_id=evaluation.problem_id,
        device_id=evaluation.device_id,
        first_hash=evaluation.candidate_hash,
        second_hash=rival,
        evaluation=evaluation,
        ratio=found.value,
        low=found.low,
        high=found.high,
        n=found.n,
        basis=found.basis.value,
        call=found.call.value,
    )
