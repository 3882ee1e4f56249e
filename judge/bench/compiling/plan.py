"""The children of the compile stage: one that holds the problem, one that runs the candidate and nothing it launches.

Both work on the processor, without a GPU's context and without its lock. Standard library only.
"""

from __future__ import annotations

import socket
from typing import Any

from judge.bench.compiling.report import CompileReport
from judge.bench.exchange.fields import BadClaim
from judge.bench.processes.artefacts import Artefacts
from judge.bench.processes.child_group import ChildGroup
from judge.bench.processes.listening import Host, Listening
from judge.values import Job, JudgeError, Verdict

STAGE_S = 45.0  # a recorder stops its compilers after 30 s by itself
WALL_S = 90.0
SEED = 20_77  # of the inputs: only their shapes matter, and another seed than any that is judged
ADDRESS_MB = 1 << 17  # large tensors are address space that nobody touches


class CompilePlan(Listening):
    """`take`: where what was compiled goes, under `key`; None keeps nothing."""

    judge = "compiler"
    uses_gpu = False
    grace_s = 10.0

    def __init__(self, bench: Host, job: Job, pool: Artefacts | None = None, key: str = "") -> None:
        super().__init__()
        self.bench, self.job, self.pool, self.key = bench, job, pool, key

    def start(self, group: ChildGroup, *, key: str, nonce: str) -> None:
        zygote = self.bench.server("recorder")
        group.start("compiler", zygote)
        group.start("recorder", zygote, allow_memfd=False)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        policy = {"policy": self.job.problem.policy.to_json()}
        asked = {"role": "subject", "mode": "record", "source": self.job.candidate}
        group.assign("recorder", asked | policy, [theirs])
        problem = {"source": self.job.problem.source, "case": self.job.problem.case, "seed": SEED, **policy}
        limits = {"wall_s": WALL_S, "stage_s": STAGE_S}
        group.assign("compiler", {"role": "compiler", "key": key, "nonce": nonce, **problem, **limits}, [ours])

    def settle(self, group: ChildGroup) -> None:
        """Take the machine code while its folder exists, from a recorder that can no longer change it."""
        super().settle(group)
        recorder = group.members["recorder"]
        recorder.server.kill(recorder)
        if self.pool is not None and group.ended("recorder", 5.0) is not None:
            self.pool.take(recorder.folder / "triton", self.key)

    def report(self, body: Any, group: ChildGroup) -> CompileReport:
        """The signed report; what the problem did to its own child says nothing about the candidate."""
        if body is not None:
            try:
                return CompileReport.read(body)
            except BadClaim as error:
                return self._without_report(f"the problem forged the report: {error}")
        child = group.members["compiler"]
        if not self.began:
            raise JudgeError(f"the compile stage ended before it began: {child.ending()} {child.tail()}")
        why = child.ending() if self.broken is None else self.broken.message
        return self._without_report(f"the compile stage came to no end while doing {self.doing}: {why}")

    def _without_report(self, message: str) -> CompileReport:
        return CompileReport(Verdict.UNSUPPORTED, stage=self.doing, reason="compile.incomplete", message=message)
