"""The child that admits a problem: it imports it, has it examined, and sends the signed report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from judge.bench.admission.admission import admit
from judge.bench.device import gpu
from judge.bench.device.gpu_lock import GpuLock
from judge.bench.exchange import seal
from judge.bench.foreign.faults import kind_of
from judge.bench.foreign.loading import LoadError, load_problem
from judge.bench.foreign.switches import neutral
from judge.bench.foreign.whereabouts import DeviceLost, Whereabouts
from judge.bench.processes.child import Assignment
from judge.values import AdmissionReport, Policy, StageRecord


def run(assignment: Assignment) -> None:
    """Role "admit"."""
    payload = assignment.payload
    policy = Policy.from_json(payload.get("policy", {}))
    neutral(policy)

    def send(stage: StageRecord) -> None:
        assignment.boss.send({"stage": asdict(stage)})

    report = _report(assignment, send, policy)
    assignment.boss.send(seal.signed(report.to_json(), payload))


def _report(assignment: Assignment, send: Callable[[StageRecord], None], policy: Policy) -> AdmissionReport:
    payload, folder = assignment.payload, assignment.folder
    whereabouts = Whereabouts(assignment.boss.send, lambda: gpu.settle(assignment.device))
    whereabouts.doing("import")
    lock = GpuLock(assignment.links[0] if assignment.links else None)
    whereabouts.let_pass = lock.let_pass
    try:
        loaded = load_problem(payload["source"], payload["case"], folder, whereabouts)
    except (LoadError, MemoryError, DeviceLost) as error:
        reason, message, line, fix = _not_imported(error)
        send(StageRecord("import", "failed", 0.0, message, fix=fix))
        where = f"line {line}: " if line else ""
        return AdmissionReport("refused", reason=reason, message=f"{where}{message}", case=payload["case"])
    return admit(loaded, payload["device"], send, assignment.target, policy, lock)


def _not_imported(error: Exception) -> tuple[str, str, int | None, str]:
    """Reason code, message, line and fix."""
    if kind_of(error) == "oom":
        message = "Importing the module needs more memory than this device may use."
        return "problem.memory", message, None, "Create large tensors in get_inputs(), not at import."
    line = error.line if isinstance(error, LoadError) else None
    return "problem.raises", str(error), line, "correct the file so that it imports"
