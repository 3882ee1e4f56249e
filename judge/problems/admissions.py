"""Preflight of a problem on a device: run in the bench, every stage visible while it runs, the report stored."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from adaexplore_site.core.text import storable
from judge.bench.runner import Bench
from judge.devices.models import Device
from judge.devices.retries import with_retries
from judge.devices.services import device_learn
from judge.problems.models import Problem
from judge.sources.checks import case_for, declared_cases
from judge.values import AdmissionReport, JudgeError, Limits, StageRecord

TOO_BIG = "problem.too_big_for_interpreter"
STALLED_AFTER_S = 300  # a running preflight older than this has lost its worker
_LIMITS = {
    Device.Kind.INTERPRETER: Limits(wall_s=120, stage_s=60),
    Device.Kind.CUDA: Limits(wall_s=120, stage_s=60),
}


def problem_admit(
    *,
    problem: Problem,
    device: Device,
    bench: Bench,
    on_stage: Callable[[StageRecord], None] | None = None,
) -> AdmissionReport:
    """Run the preflight and store it under `problem.admission[device.name]`, then settle `problem.state`.

    Calls `on_stage` after each stage. Raises JudgeError when the bench failed three times; the entry then has state
    "failed" and the problem's own state is untouched.
    """
    started = timezone.now()
    stages: list[StageRecord] = []

    def progress(stage: StageRecord) -> None:
        repeated = next((i for i, told in enumerate(stages) if told.name == stage.name), len(stages))
        stages[repeated:] = [stage]  # a second start, with another case, tells its stages anew
        _store(problem, device, _entry("running", started, stages))
        if on_stage is not None:
            on_stage(stage)

    def attempt() -> AdmissionReport:
        stages.clear()
        _store(problem, device, _entry("running", started, stages))
        return _admit(problem, device, bench, progress)

    try:
        report = with_retries(attempt)
    except JudgeError as error:
        message = f"The judge failed, not the problem: {error}"
        _store(problem, device, {**_entry("failed", started, stages), "message": message})
        raise
    report = dataclasses.replace(
        report,
        stages=(*_untold(stages, report), *report.stages),
        environment={**report.environment, "at": started.isoformat()},
    )
    _store(problem, device, report.to_json())
    if report.roofline is not None and report.roofline.source == "measured":
        device_learn(device=device, dram_gb_s=report.roofline.dram_gb_s)
    return report


def admission_limits(device: Device) -> Limits:
    """What one preflight on the device may take."""
    return _LIMITS[Device.Kind(device.kind)]


def admission_queue(*, problem: Problem, device: Device) -> None:
    """Mark the preflight as waiting for the device's worker. Call before enqueuing the task."""
    _store(problem, device, _entry("queued", timezone.now(), []))


def admission_stalled(entry: dict[str, Any] | None, *, now: datetime) -> bool:
    """True when a stored entry still says running although its worker must be gone: offer to start it again."""
    if not entry or entry.get("state") != "running" or not entry.get("started"):
        return False
    return (now - datetime.fromisoformat(entry["started"])).total_seconds() > STALLED_AFTER_S


def _admit(problem: Problem, device: Device, bench: Bench, progress: Callable[[StageRecord], None]) -> AdmissionReport:
    case = case_for(device.kind, declared_cases(problem.source))
    limits = admission_limits(device)
    report = bench.admit(problem.spec(case), limits=limits, progress=progress)
    better = case_for(device.kind, report.cases)
    if case is None and better is not None:  # get_cases() computes its names: they are known only now
        report = bench.admit(problem.spec(better), limits=limits, progress=progress)
    return report


def _untold(stages: list[StageRecord], report: AdmissionReport) -> list[StageRecord]:
    """Stages told while it ran that the report does not repeat, such as an import that failed."""
    repeated = {stage.name for stage in report.stages}
    return [stage for stage in stages if stage.name not in repeated]


def _entry(state: str, started: datetime, stages: list[StageRecord]) -> dict[str, Any]:
    told = [dataclasses.asdict(stage) for stage in stages]
    return {"state": state, "stages": told, "started": started.isoformat()}


def _store(problem: Problem, device: Device, entry: dict[str, Any]) -> None:
    """Replace one device's entry under the row lock, so that two devices never overwrite each other."""
    with transaction.atomic():
        row = Problem.objects.select_for_update().only("admission", "state").get(pk=problem.pk)
        row.admission = {**row.admission, device.name: storable(entry)}
        row.state = settled_state(row.admission, before=row.state)
        row.save(update_fields=["admission", "state"])
    problem.admission, problem.state = row.admission, row.state


def settled_state(admission: dict[str, Any], *, before: str) -> str:
    """The problem's state from the reports of all devices.

    Degenerate anywhere is degenerate, also by shapes alone where it is too big to run; admitted anywhere else is
    admitted; too big for the interpreter says nothing else about the problem itself. While a preflight runs, the other
    reports decide, and without any the state stays.
    """
    reports = [entry for entry in admission.values() if isinstance(entry, dict)]
    if any(flaw.get("flags") for entry in reports for flaw in entry.get("flaws", ())):
        return Problem.State.DEGENERATE.value
    states = {entry.get("state") for entry in reports if entry.get("reason") != TOO_BIG}
    for state in (Problem.State.DEGENERATE, Problem.State.ADMITTED, Problem.State.REFUSED):
        if state.value in states:
            return state.value
    only_too_big = any(entry.get("reason") == TOO_BIG for entry in reports)
    return Problem.State.PENDING.value if only_too_big else before
