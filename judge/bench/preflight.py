"""The child that admits a problem: it imports it, has it examined, and sends the signed report."""

from __future__ import annotations

import json
from dataclasses import asdict

from judge.bench import seal
from judge.bench.admission import admit
from judge.bench.child import Assignment
from judge.bench.faults import describe_fault
from judge.bench.gpu import neutral_flags
from judge.bench.loading import LoadError, load_problem
from judge.values import AdmissionReport, StageRecord


def run(assignment: Assignment) -> None:
    """Role "admit"."""
    neutral_flags()
    payload = assignment.payload

    def send(stage: StageRecord) -> None:
        assignment.boss.send({"stage": asdict(stage)})

    report = _report(assignment, send)
    body = json.loads(json.dumps(report.to_json()))
    mac = seal.sign(body, key=payload["key"], nonce=payload["nonce"])
    assignment.boss.send({"verdict": body, "mac": mac})


def _report(assignment: Assignment, send) -> AdmissionReport:  # type: ignore[no-untyped-def]
    payload = assignment.payload
    assignment.boss.send({"doing": "problem.import"})
    try:
        loaded = load_problem(payload["source"], payload["case"], assignment.folder)
    except LoadError as error:
        if error.__cause__ is not None and describe_fault(error.__cause__, assignment.folder)["kind"] == "oom":
            message = "Importing the module needs more memory than this device may use."
            fix = "Create large tensors in get_inputs(), not at import."
            send(StageRecord("import", "failed", 0.0, message, fix=fix))
            return AdmissionReport("refused", reason="problem.memory", message=message, case=payload["case"])
        where = f"line {error.line}: " if error.line else ""
        send(StageRecord("import", "failed", 0.0, error.message, fix="correct the file so that it imports"))
        return AdmissionReport(
            "refused", reason="problem.raises", message=f"{where}{error.message}", case=payload["case"]
        )
    assignment.boss.send({"doing": "problem.run"})
    return admit(loaded, payload["device"], send, assignment.target)
