"""Preflights of other machines: their reports, and the sealed cases that were derived there."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from django.utils import timezone

from judge.batch.lines import Returned, Sealing
from judge.batch.models import BatchJob
from judge.problems.admission import admission_keep
from judge.problems.models import Problem
from judge.problems.sealing import sealed_keep, sealing_due, sealing_failed, sealing_told
from judge.values import AdmissionReport, StageRecord


def seals(problem: Problem, case: str | None) -> bool:
    """Whether a preflight of the problem derives sealed cases."""
    return problem.origin != Problem.Origin.SYNTHETIC and sealing_due(problem, case)


def report_keep(line: Returned, report: AdmissionReport, job: BatchJob) -> None:
    """Store what came back, and the sealed cases where they are due still."""
    environment = {**report.environment, "batch": origin_of(line), "at": timezone.now().isoformat()}
    stages = report.stages
    if report.state != "refused" and seals(job.problem, report.case):
        stages = (*stages, _sealed(job.problem, report.case, line.sealing))
    report = dataclasses.replace(report, environment=environment, stages=stages)
    admission_keep(problem=job.problem, device=job.device, report=report)


def _sealed(problem: Problem, case: str | None, sealing: Sealing | None) -> StageRecord:
    """The stage that tells of them."""
    started = time.monotonic()
    if sealing is None:
        return sealing_failed(started)
    sealed_keep(problem=problem, case=case, seed=sealing.seed, found=sealing.cases)
    return sealing_told(problem, case, started)


def origin_of(line: Returned) -> dict[str, Any]:
    """Where an outcome came from, for its environment."""
    return {"signed": line.signed, "job": line.id, "judged_at": line.judged_at, **line.fingerprint}
