"""The audit stage of one evaluation, put together from what its referee holds."""

from __future__ import annotations

from judge.bench.audit.audit import Audit
from judge.bench.audit.setting import Doors, Setting
from judge.bench.device.gpu_lock import GpuLock
from judge.bench.judging.reference import Reference
from judge.bench.judging.stage_log import StageLog
from judge.bench.judging.subjects import Subjects
from judge.bench.processes.child import Assignment
from judge.bench.processes.inspection import look
from judge.values import Finding, SealedCase


def audit(
    assignment: Assignment,
    subjects: Subjects,
    reference: Reference,
    lock: GpuLock,
    stage_log: StageLog,
    findings: list[Finding],
    candidate_us: float | None,
) -> None:
    """Run every check within a wall limit of its own; findings are added. Raises Ended.

    `candidate_us`: the measured time, None where it is modelled or was not asked for.
    """
    payload, deadline = assignment.payload, subjects.deadline
    deadline.renew(payload["wall_s"])
    subjects.release(*subjects.contacts)  # nobody whose output is kept sees what the audit asks
    doors = Doors(
        more=subjects.more,
        release=subjects.release,
        introduce=subjects.introduce,
        look=lambda name: look(assignment.boss, name, deadline.stage()),
        refer=lambda loaded: Reference(loaded, assignment.device, reference.policy),
    )
    setting = Setting(
        doors,
        reference,
        reference.policy,
        (payload["source"], payload["case"]),
        assignment.folder,
        assignment.device,
        assignment.target,
        interprets=payload["basis"] == "modelled",
        sealed=tuple(SealedCase(**row) for row in payload["sealed"]),
        defined=payload["defined"],
        candidate_us=candidate_us,
        findings=findings,
    )
    Audit(setting, stage_log.record, lock).run()
