"""The audit stage of one evaluation, put together from what its referee holds."""

from __future__ import annotations

from judge.bench.audit import Audit
from judge.bench.audit_setting import Doors, Setting
from judge.bench.child import Assignment
from judge.bench.gpu_lock import GpuLock
from judge.bench.inspection import look
from judge.bench.minutes import Minutes
from judge.bench.reference import Reference
from judge.bench.subjects import Subjects
from judge.values import Finding, SealedCase


def audit(
    assignment: Assignment,
    subjects: Subjects,
    reference: Reference,
    lock: GpuLock,
    minutes: Minutes,
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
    Audit(setting, minutes.record, lock).run()
