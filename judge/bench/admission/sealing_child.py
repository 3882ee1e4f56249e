"""The child that derives sealed cases. What its problem prints or raises on them is told to nobody."""

from __future__ import annotations

from dataclasses import asdict

from judge.bench.admission.sealing import derived_cases
from judge.bench.device import gpu
from judge.bench.device.gpu_lock import GpuLock
from judge.bench.exchange import seal
from judge.bench.foreign.loading import LoadError, load_problem
from judge.bench.foreign.switches import neutral
from judge.bench.foreign.whereabouts import DeviceLost, Whereabouts
from judge.bench.processes.child import Assignment
from judge.values import Policy, SealedCase


def run(assignment: Assignment) -> None:
    """Role "seal": one signed message with the cases; without one the problem has ended its process."""
    payload = assignment.payload
    policy = Policy.from_json(payload["policy"])
    neutral(policy)
    found = [asdict(case) for case in _cases(assignment, policy)]
    assignment.boss.send(seal.signed({"cases": found}, payload))


def _cases(assignment: Assignment, policy: Policy) -> list[SealedCase]:
    payload = assignment.payload
    whereabouts = Whereabouts(assignment.boss.send, lambda: gpu.settle(assignment.device))
    whereabouts.doing("import")
    lock = GpuLock(assignment.links[0] if assignment.links else None)
    whereabouts.let_pass = lock.let_pass
    try:
        loaded = load_problem(payload["source"], payload["case"], assignment.folder, whereabouts)
        with lock.shared():
            return derived_cases(loaded, assignment.device, policy, int(payload["seed"], 16), clock=lock.working_s)
    except (LoadError, MemoryError, DeviceLost):
        return []
