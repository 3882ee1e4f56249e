"""The compile stage as the runner sees it: compile once, keep the machine code, hand it to every child of a candidate.

Standard library only.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from judge.bench.compiling.plan import ADDRESS_MB, WALL_S, CompilePlan
from judge.bench.compiling.report import CompileReport
from judge.bench.compiling.tuning_choices import MOST_ROWS, read_choices
from judge.bench.exchange.fields import BadClaim
from judge.bench.processes.artefacts import Artefacts, Handover, artefact_key, pool_name
from judge.bench.processes.child_group import ChildGroup
from judge.bench.processes.listening import Host, Listening
from judge.values import Job, Limits, Outcome, ProblemSpec, StageRecord
from judge.values.units import counted

COMPILE = "compile:"  # a device that compiles for the target named after it, and runs nothing

Progress = Callable[[StageRecord], None]
Conduct = Callable[[Any, Limits, Progress | None], tuple[Any, ChildGroup]]


class CompileStage:
    """Compiles for one bench; what it found outlives the process when the folder does."""

    def __init__(self, bench: Host, conduct: Conduct, open_pool: Callable[[], Artefacts]) -> None:
        """`conduct` runs a plan's children to their end. `open_pool` is called on first use: its folder is named by
        versions that only a started bench knows."""
        self.bench = bench
        self._conduct = conduct
        self._open_pool = open_pool
        self._pool: Artefacts | None = None
        self._no_stubs = False  # they cannot be built here; every child builds its own

    @property
    def pool(self) -> Artefacts:
        if self._pool is None:
            self._pool = self._open_pool()
            self._pool.trim()
        return self._pool

    def wanted(self, source: str) -> bool:
        """Whether this device compiles ahead, and there can be a kernel in the text.

        One that hides the name is compiled by its own child, and counted.
        """
        if self.bench.device.startswith(COMPILE):
            return True
        return self.bench.device.startswith("cuda") and "triton" in source

    def run(self, job: Job, progress: Progress | None = None) -> tuple[CompileReport, StageRecord]:
        """The report for the job's candidate, made now or known from before. Raises JudgeError."""
        started = time.monotonic()
        key = artefact_key(job.candidate, job.problem.hash, job.problem.case)
        with self.pool.claim(key):
            report = self._known(key)
            cached = report is not None
            if report is None:
                report = self._compile(job, key)
        if self.bench.device.startswith("cuda") and not report.final:
            self.build_stubs(report)
        state = "failed" if report.final else "ok" if report.complete else "warned"
        record = StageRecord("compile", state, (time.monotonic() - started) * 1000, _detail(report, cached))
        if progress is not None:
            progress(record)
        return report, record

    def _compile(self, job: Job, key: str) -> CompileReport:
        plan = CompilePlan(self.bench, job, self.pool, key)
        limits = dataclasses.replace(job.limits, wall_s=WALL_S, memory_mb=ADDRESS_MB)
        body, group = self._conduct(plan, limits, None)
        report = plan.report(body, group)
        self.pool.note(key, {"report": report.to_json()})
        return report

    def _known(self, key: str) -> CompileReport | None:
        """Only what ended for sure: what came to no end is tried again."""
        found = self.pool.known(key)
        try:
            report = CompileReport.read(found.get("report")) if found else None
        except BadClaim:
            return None
        if report is None or report.reason == "compile.timeout":  # the machine may have been busy
            return None
        return report if report.complete or report.final else None

    def hand_over(self, source: str, problem: ProblemSpec, folder: Path) -> Handover | None:
        """Copy what was compiled of a candidate into the folder of a child that will run it; None where nothing is."""
        if not self.wanted(source):
            return None
        key = artefact_key(source, problem.hash, problem.case)
        noted = self.pool.known(key) or {}
        tuned = noted.get("report", {}).get("tuned", [])
        payload = {"tuned": tuned, "choices": noted.get("choices", [])}
        return Handover(key, folder, self.pool.seed(key, folder / "triton"), payload)

    def learn(self, handover: Handover) -> None:
        """Keep the configurations that a child's autotuners chose: its next processes take the same. First come,
        first kept."""
        noted = self.pool.known(handover.key)
        if noted is None:
            return
        known = noted.get("choices", [])
        places = {(row["kernel"], row["key"]) for row in known}
        new = [row for row in read_choices(handover.folder) if (row["kernel"], row["key"]) not in places]
        if new:
            self.pool.note(handover.key, {**noted, "choices": [*known, *new][:MOST_ROWS]})

    def build_stubs(self, report: CompileReport) -> None:
        """Host modules that nobody has needed so far, built by a child that never sees a candidate."""
        if self._no_stubs:
            return
        index = self.pool.stubs()
        launchers = [dataclasses.asdict(row) for row in report.launchers]
        wanted = [row for row in launchers if _digest(row) not in index["launchers"]]
        if index["utilities"] and (index["generic"] or not wanted):
            return
        plan = StubPlan(self.bench, self.pool, wanted)
        body, _ = self._conduct(plan, Limits(wall_s=WALL_S, memory_mb=ADDRESS_MB), None)
        self._no_stubs = body is None or bool(body["failed"])
        if body is not None and not self._no_stubs:
            names = [*index["launchers"], *(_digest(row) for row in wanted)]
            self.pool.note_stubs({"utilities": True, "generic": bool(body["generic"]), "launchers": names})


class StubPlan(Listening):
    """One child that builds host modules."""

    judge = "stubs"
    uses_gpu = False
    grace_s = 10.0

    def __init__(self, bench: Host, pool: Artefacts, launchers: list[dict[str, Any]]) -> None:
        super().__init__()
        self.bench, self.pool, self.launchers = bench, pool, launchers

    def start(self, group: ChildGroup, *, key: str, nonce: str) -> None:
        group.start("stubs", self.bench.server("recorder"))
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        ours.close()
        group.assign("stubs", {"role": "stubs", "key": key, "nonce": nonce, "launchers": self.launchers}, [theirs])

    def settle(self, group: ChildGroup) -> None:
        super().settle(group)
        self.pool.share(group.members["stubs"].folder / "triton")


def open_pool(root: Path, toolchain: str) -> Artefacts:
    """The folder of one toolchain and target under `root`."""
    return Artefacts(root / pool_name(toolchain))


def outcome_of(report: CompileReport) -> Outcome:
    """The report as an ending: of a device that only compiles, or where a candidate does not."""
    return Outcome(
        report.verdict,
        stage=report.stage,
        reason=report.reason or "compile.only",
        message=report.message or "every kernel compiles; nothing was run",
        loads=report.loads,
        kernels=tuple(row.to_json() for row in report.kernels),
        findings=report.findings(),
        environment={"compile": "; ".join(report.notes) or ("complete" if report.complete else "failed")},
    )


def _digest(row: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(row, sort_keys=True).encode()).hexdigest()[:24]


def _detail(report: CompileReport, cached: bool) -> str:
    if not report.complete:
        return report.reason if report.final else f"left to the GPU: {report.message}"[:600]
    count = len({(row.name, row.regs, row.num_warps) for row in report.kernels})
    launched = (
        f"{counted(len(report.kernels), 'launch', 'es')} of {counted(count, 'kernel')}"
        if report.kernels
        else "no kernel is launched"
    )
    return launched + (", known from before" if cached else "")
