"""Preflights: one is run on a device, queued, stopped or kept, and its problem's state follows."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models.fields.json import KeyTransform
from django.utils import timezone
from django.utils.translation import gettext as _

from adaexplore_site.core.audit import ActionRefused, action_on
from adaexplore_site.core.text import storable
from judge.bench.processes.stopping import stoppable
from judge.bench.runner import Bench
from judge.devices.benches import with_retries
from judge.devices.models import Device
from judge.devices.services import device_learn
from judge.problems.baselines import baselines_stage
from judge.problems.models import Problem
from judge.problems.quarantine import TIMEOUT, strikes_count
from judge.problems.sealing import sealing_stage
from judge.sources.checks import case_for, declared_cases
from judge.values import AdmissionReport, JudgeError, Limits, StageRecord, Stopped

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

STOP = "preflight.stop"
TOO_BIG = "problem.too_big_for_interpreter"
STALLED_AFTER_S = 300  # a running preflight older than this has lost its worker
PREFLIGHT_LIMITS = Limits(wall_s=120, stage_s=60)
# One call of a problem's code on the interpreter's only worker, where everybody's uploads wait: a reference that takes
# longer could not be judged there anyway, and an endless loop is over by then (ADR 57).
INTERPRETED_CALL_S = 20.0
QUEUED, RUNNING, STOPPED = "queued", "running", "stopped"


def problem_admit(
    *,
    problem: Problem,
    device: Device,
    bench: Bench,
    on_stage: Callable[[StageRecord], None] | None = None,
    waiting: bool = False,
) -> AdmissionReport:
    """Run the preflight and store it under `problem.admission[device.name]`, then settle `problem.state`.

    The last stage derives sealed cases where they are due. Calls `on_stage` after each stage. Raises JudgeError when
    the bench failed three times; the entry then has state "failed" and the problem's own state is untouched. Raises
    Stopped when a person stops it, or another preflight of the same begins; with `waiting` also where it is decided or
    was stopped since it was queued.
    """
    started, mine = timezone.now(), uuid.uuid4().hex[:12]
    stages: list[StageRecord] = []

    def store(entry: dict[str, Any]) -> None:
        _store(problem, device, entry, only=lambda known: known.get("id") == mine)

    def running() -> dict[str, Any]:
        return {**_entry(RUNNING, started, stages), "id": mine}

    def unwanted() -> bool:
        return _entry_id(problem, device) != mine

    def progress(stage: StageRecord) -> None:
        repeated = next((i for i, known in enumerate(stages) if known.name == stage.name), len(stages))
        stages[repeated:] = [stage]  # a second start, with another case, reports its stages anew
        store(running())
        if on_stage is not None:
            on_stage(stage)

    def attempt() -> AdmissionReport:
        stages.clear()
        store(running())
        return _admit(problem, device, bench, progress)

    _store(problem, device, running(), only=_waits if waiting else None)
    try:
        with stoppable(unwanted):
            report = with_retries(attempt)
    except JudgeError as error:
        message = f"The judge failed, not the problem: {error}"
        store({**_entry("failed", started, stages), "message": message})
        raise
    repeated = {stage.name for stage in report.stages}  # the report leaves out such as an import that failed
    report = dataclasses.replace(
        report,
        stages=(*(stage for stage in stages if stage.name not in repeated), *report.stages),
        environment={**report.environment, "at": started.isoformat()},
    )
    if report.state != "refused" and problem.origin != Problem.Origin.SYNTHETIC:  # their searches decide nothing
        with stoppable(unwanted):
            stage = sealing_stage(problem=problem, case=report.case, bench=bench)
        progress(stage)
        report = dataclasses.replace(report, stages=(*report.stages, stage))
    if report.state == "admitted" and device.is_gpu and problem.origin != Problem.Origin.SYNTHETIC:
        with stoppable(unwanted):
            stage = baselines_stage(problem.spec(report.case), bench=bench, limits=preflight_limits(device))
        progress(stage)
        report = dataclasses.replace(report, stages=(*report.stages, stage))
    store(report.to_json())
    _kept(problem, device, report)
    return report


def admission_keep(*, problem: Problem, device: Device, report: AdmissionReport) -> None:
    """Store a finished preflight of a bench on another machine, and settle the problem's state."""
    _store(problem, device, report.to_json())
    _kept(problem, device, report)


def _kept(problem: Problem, device: Device, report: AdmissionReport) -> None:
    """What a stored report tells of its problem and its device."""
    if report.reason != TIMEOUT:  # it is refused here by that; on a faster device it may be judged
        strikes_count(problem, reason=report.reason if report.state == "refused" else "", message=report.message)
    if report.roofline is not None and report.roofline.source == "measured":
        device_learn(device=device, dram_gb_s=report.roofline.dram_gb_s)


def admission_fail(*, problem: Problem, device: Device, message: str) -> None:
    """The judge could not do the preflight. The problem's own state is untouched."""
    _store(problem, device, {**_entry("failed", timezone.now(), []), "message": message})


def admission_queue(*, problem: Problem, device: Device) -> None:
    """Mark the preflight as waiting for the device's worker. Call before enqueuing the task."""
    _store(problem, device, _entry(QUEUED, timezone.now(), []))


def admission_stop(*, problem: Problem, device: Device, user: AbstractBaseUser | None, key: str | None = None) -> None:
    """Stop a preflight that waits or runs; its worker sees it within a second. Raises ActionRefused."""
    with transaction.atomic():
        row = Problem.objects.select_for_update().only("admission", "state").get(pk=problem.pk)
        known = row.report_for(device.name) or {}
        if known.get("state") not in (QUEUED, RUNNING):
            raise ActionRefused(
                _("No preflight of this problem waits or runs on %(device)s.") % {"device": device.name}
            )
        by = f" by {user.get_username()}" if user else ""
        kept = {name: known[name] for name in ("stages", "started") if name in known}
        row.admission = {**row.admission, device.name: {**kept, "state": STOPPED, "message": f"Stopped{by}."}}
        row.state = settled_state(row.admission, before=row.state)
        row.save(update_fields=["admission", "state"])
        before, after = {"state": known["state"]}, {"state": STOPPED, "device": device.name}
        action_on(verb=STOP, on=("problem", row.pk), user=user, key=key, before=before, after=after)


def _waits(known: dict[str, Any]) -> bool:
    """Whether a preflight that was queued is still to be run: one that runs has lost its worker, and comes again."""
    return known.get("state", QUEUED) in (QUEUED, RUNNING)


def _entry_id(problem: Problem, device: Device) -> str | None:
    """Which preflight an entry that runs belongs to, as it is stored now."""
    found = KeyTransform("id", KeyTransform(device.name, "admission"))
    return Problem.objects.filter(pk=problem.pk).values_list(found, flat=True).first()


def admission_stalled(entry: dict[str, Any] | None, *, now: datetime) -> bool:
    """True when a stored entry still says running although its worker must be gone: offer to start it again."""
    if not entry or entry.get("state") != "running" or not entry.get("started"):
        return False
    return (now - datetime.fromisoformat(entry["started"])).total_seconds() > STALLED_AFTER_S


def preflight_limits(device: Device) -> Limits:
    """Of one preflight on this device."""
    return PREFLIGHT_LIMITS if device.is_gpu else dataclasses.replace(PREFLIGHT_LIMITS, stage_s=INTERPRETED_CALL_S)


def _admit(problem: Problem, device: Device, bench: Bench, progress: Callable[[StageRecord], None]) -> AdmissionReport:
    case, limits = case_for(device.kind, declared_cases(problem.source)), preflight_limits(device)
    report = bench.admit(problem.spec(case), limits=limits, progress=progress)
    better = case_for(device.kind, report.cases)
    if case is None and better is not None:  # get_cases() computes its names: they are known only now
        report = bench.admit(problem.spec(better), limits=limits, progress=progress)
    return report


def _entry(state: str, started: datetime, stages: list[StageRecord]) -> dict[str, Any]:
    rows = [dataclasses.asdict(stage) for stage in stages]
    return {"state": state, "stages": rows, "started": started.isoformat()}


def _store(
    problem: Problem,
    device: Device,
    entry: dict[str, Any],
    *,
    only: Callable[[dict[str, Any]], bool] | None = None,
) -> None:
    """Replace one device's entry under the row lock, so that two devices never overwrite each other. Raises Stopped
    where the problem was removed, or the entry that is there is not one that `only` holds of."""
    with transaction.atomic():
        row = Problem.objects.select_for_update().only("admission", "state").filter(pk=problem.pk).first()
        if row is None or (only is not None and not only(row.report_for(device.name) or {})):
            raise Stopped(f"the preflight of {problem.slug} on {device.name} is not wanted any more")
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
