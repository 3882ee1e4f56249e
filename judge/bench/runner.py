"""Starts, bounds, talks to and kills the bench children. Standard library only; never imports torch."""

from __future__ import annotations

import dataclasses
import math
import os
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from judge.bench.compiling.report import CompileReport
from judge.bench.compiling.stage import COMPILE, CompileStage, open_pool, outcome_of
from judge.bench.device.gpu_lock import open_lock
from judge.bench.foreign.places import as_loaded, placed
from judge.bench.foreign.sources import LoadError, check_source
from judge.bench.interpreting.calibration import model_for
from judge.bench.interpreting.targets import target as target_named
from judge.bench.processes.baselines import Baselines, KnownTimes
from judge.bench.processes.children import Child, private_folder, wipe
from judge.bench.processes.conducting import Conductor
from judge.bench.processes.cores import CorePlan, plan_for
from judge.bench.processes.forkserver import ForkServer
from judge.bench.processes.jobs import BREAKS_OFF, BREAKS_OFF_FIX, AdmissionPlan, EvaluationPlan, SealingPlan
from judge.bench.processes.kept_referees import KeptReferees
from judge.bench.processes.known_problem import KNOWN, KNOWN_RIGHT, crowded
from judge.bench.processes.listening import Progress
from judge.values import (
    AdmissionReport,
    Job,
    JudgeError,
    Limits,
    Outcome,
    ProblemSpec,
    SealedCase,
    StageRecord,
    Timing,
    UnclearFault,
    Verdict,
)

DEFAULT_LIMITS = Limits()
SPARES = 5  # referee, candidate, eager, best so far, one more; about 650 MB of GPU memory each
PRESSED_S = 0.5
AS_CANDIDATE = "\n\nclass ModelNew(Model):\n    pass\n"


class Bench:
    """One device's bench: a zygote with torch and triton preloaded, and one-shot sandboxed children.

    `device` is "interpreter", "cuda:N", "compile:sm_90" (compiles, runs nothing) or "cpu" (runs torch-only candidates
    with a wall clock; tests use it). Use as a context manager, or call `close`. Not thread-safe: one per worker.
    Raises JudgeError when the bench itself fails; a bad candidate or problem is a value.
    """

    def __init__(
        self,
        device: str,
        *,
        target: str = "sm_90",
        sandbox: bool = True,
        minimum_sandbox: frozenset[str] = frozenset(),
        alternatives: bool = True,
        lock_folder: Path | None = None,
        artefacts: Path | None = None,
        identity: str = "",
        cores: CorePlan | None = None,
    ) -> None:
        """`minimum_sandbox`: layers without which no foreign code is run; evaluations then raise JudgeError.

        `alternatives`: whether a new best is measured against other baselines than eager, too. `artefacts`: where
        compiled kernels outlive the bench; `identity`: what tells this GPU from its successor. `cores`: which
        processors children run on; without it some of those that this process may use are kept for what is timed.
        """
        self.device = device
        self.target = device.removeprefix(COMPILE) if device.startswith(COMPILE) else target
        if device.startswith(COMPILE):
            target_named(self.target)  # raises ValueError for an unknown one
        self.sandbox = sandbox
        self.minimum_sandbox = minimum_sandbox
        self.alternatives = alternatives
        self.lock_folder = lock_folder or Path(tempfile.gettempdir())
        self.identity = identity or device
        self.spares = SPARES if device.startswith("cuda") else 0
        self.kept_referees = KeptReferees()
        self._ended = 0.0  # when the last evaluation was done
        self._pressed = False  # this one came right after it: contexts are then made several at once, and more rarely
        self.conductor = Conductor(self)
        self._root: Path | None = None
        self._servers: dict[str, ForkServer] = {}
        self.times = KnownTimes(lambda: self.baselines)
        self._facts: dict[str, Any] | None = None
        self.compiling = CompileStage(
            self,
            self.conductor.conduct,
            lambda: open_pool(artefacts or self._private() / "artefacts", str(self.facts()["toolchain"])),
        )
        self._cores = cores

    # -- public -----------------------------------------------------------------------------------------------------

    def admit(
        self, problem: ProblemSpec, *, limits: Limits = DEFAULT_LIMITS, progress: Progress | None = None
    ) -> AdmissionReport:
        """Preflight: import, shapes, reference run, op graph, FLOPs, bytes, degeneracy. Calls `progress` per stage."""
        started = time.monotonic()
        try:
            check_source(
                problem.source, needs=("Model", "get_inputs", "get_init_inputs"), max_bytes=limits.source_bytes
            )
        except LoadError as error:
            stage = StageRecord("parse", "failed", _ms(started), detail=error.message, fix=f"line {error.line}")
            return AdmissionReport(
                "refused", reason=error.reason, message=error.message, case=problem.case, stages=(stage,)
            )
        report = self._admitted(problem, limits, progress)
        return dataclasses.replace(
            report, environment={**report.environment, **self._environment()}, wall_ms=_ms(started)
        )

    def _admitted(self, problem: ProblemSpec, limits: Limits, progress: Progress | None) -> AdmissionReport:
        """The preflight's report. No problem has had too little of a GPU's memory while those who wait hold some."""
        if self.spares and len(self.kept_referees):
            plan = AdmissionPlan(self, problem, limits)
            try:
                report = plan.admission(*self.conductor.conduct(plan, limits, progress))
            except JudgeError:
                pass  # its child may not even have had a context
            else:
                if report.reason != "problem.memory":
                    return report
            self.rest()
        plan = AdmissionPlan(self, problem, limits)
        return plan.admission(*self.conductor.conduct(plan, limits, progress))

    def seal(self, problem: ProblemSpec, *, seed: str, limits: Limits = DEFAULT_LIMITS) -> tuple[SealedCase, ...]:
        """Cases that the reference takes, derived from a secret `seed` (hexadecimal); () where there are none, or where
        the problem ended its process on one. Raises JudgeError."""
        if len(self.kept_referees):
            self.rest()  # they hold memory that the reference may want
        plan = SealingPlan(self, problem, seed, limits)
        return plan.cases(*self.conductor.conduct(plan, limits, None))

    def evaluate(self, job: Job, *, progress: Progress | None = None) -> Outcome:
        """Judge one candidate. Always returns an Outcome; a hung or dead child is a verdict too."""
        started = time.monotonic()
        self.conductor.settling_s = 0.0
        self._pressed = started - self._ended < PRESSED_S
        written = job.candidate
        job = as_loaded(job)
        try:
            check_source(job.candidate, needs=("ModelNew",), max_bytes=job.limits.source_bytes)
        except LoadError as error:
            stage = StageRecord("parse", "failed", _ms(started), detail=error.message)
            return Outcome(
                Verdict.BAD_SOURCE,
                stage="parse",
                reason=error.reason,
                message=error.message,
                stages=(stage,),
                wall_ms=_ms(started),
            )
        parsed = StageRecord("parse", "ok", _ms(started))
        if progress:
            progress(parsed)
        outcome, before = self._judge(job, progress)
        return dataclasses.replace(
            placed(outcome, written),
            stages=(parsed, *before, *outcome.stages),
            environment={**outcome.environment, **self._environment()},
            wall_ms=_ms(started),
        )

    def _judge(self, job: Job, progress: Progress | None) -> tuple[Outcome, tuple[StageRecord, ...]]:
        """Compile where no interpreter does it beside, then run; a failure to compile never touches the device."""
        report: CompileReport | None = None
        before: tuple[StageRecord, ...] = ()
        if self.compiling.wanted(job.candidate):
            report, record = self.compiling.run(job, progress)
            before = (record,)
            if report.final or self.device.startswith(COMPILE):
                return outcome_of(report), before
        outcome = self._refereed(job, progress)
        self.stock(job.limits, least=2 if self._pressed else None)
        self._ended = time.monotonic()
        self.times.remember(job, outcome)
        if report is not None:
            outcome = dataclasses.replace(
                outcome,
                kernels=tuple(row.to_json() for row in report.kernels),
                findings=(*report.findings(), *outcome.findings),
            )
        return outcome, before

    def _refereed(self, job: Job, progress: Progress | None) -> Outcome:
        """The referee's verdict. What one that has stayed cannot decide, or blames on the problem, a new one must; and
        nobody has had too little of a GPU's memory while those who wait hold some."""
        waiting = bool(self.spares and len(self.kept_referees))
        plan = EvaluationPlan(self, job)
        try:
            outcome = plan.outcome(*self.conductor.conduct(plan, job.limits, progress))
        except JudgeError as error:
            if not (plan.adopted or waiting):
                if not isinstance(error, UnclearFault):
                    raise
                if plan.hung:  # once more would take as long
                    return self._cleared(plan, job.limits, error)
        else:
            refused = outcome.verdict is Verdict.REFUSED_PROBLEM
            short = outcome.verdict is Verdict.OUT_OF_MEMORY or outcome.reason == "problem.memory"
            if not (plan.adopted and refused) and not (waiting and short):
                return outcome
        self.rest()
        plan = EvaluationPlan(self, job)
        try:
            return plan.outcome(*self.conductor.conduct(plan, job.limits, progress))
        except UnclearFault as error:
            return self._cleared(plan, job.limits, error)

    def _cleared(self, plan: EvaluationPlan, limits: Limits, error: UnclearFault) -> Outcome:
        """Whose fault it was that a new referee came to no verdict: the problem's, which ran in that process, where the
        bench can judge a known problem right after it. Raises JudgeError where it cannot: the device's; UnclearFault
        where the referee itself had given up.
        """
        self.rest()
        if plan.gave_up and crowded(self.device, self.identity):
            raise JudgeError(str(error)) from error
        known = EvaluationPlan(self, Job("known", KNOWN, KNOWN_RIGHT, limits=limits, timing=False, beat=math.inf))
        try:
            body, _ = self.conductor.conduct(known, limits, None)
        except JudgeError as second:
            raise JudgeError(f"{error}; nor could a known problem be judged: {second}") from error
        self.kept_referees.clear()
        if body is None:
            raise JudgeError(f"{error}; nor could a known problem be judged") from error
        if plan.gave_up:
            raise error
        message = f"its process came to no verdict, and that of a known problem did right after: {error}"
        return plan.refused(BREAKS_OFF, message, BREAKS_OFF_FIX)

    def time_baselines(self, problem: ProblemSpec, *, limits: Limits = DEFAULT_LIMITS) -> tuple[Timing, ...]:
        """Time the baselines that are timed once a problem, ahead of its first best, and keep the times. Returns them.

        The reference itself is the candidate: where that is not right, a case for example reaches only the problem's
        own module, there are none. Raises JudgeError.
        """
        job = as_loaded(Job("baselines", problem, problem.source + AS_CANDIDATE, limits=limits, beat=math.inf))
        plan = EvaluationPlan(self, job, ahead=True)
        wanted = {one.subject for one in plan.untimed()}
        if not wanted:
            return ()
        outcome = plan.outcome(*self.conductor.conduct(plan, limits, None))
        self.times.remember(job, outcome)
        return tuple(timing for timing in outcome.timings if timing.subject in wanted)

    def compile(self, job: Job, *, progress: Progress | None = None) -> Outcome:
        """The compile stage alone: no GPU, no lock. A later `evaluate` of the same job finds its work done."""
        report, record = self.compiling.run(as_loaded(job), progress)
        outcome = placed(outcome_of(report), job.candidate)
        return dataclasses.replace(outcome, stages=(record,), wall_ms=record.wall_ms)

    def facts(self) -> dict[str, object]:
        """Device, toolchain and sandbox facts for the environment fingerprint and the fleet page.

        Keys: device, target, python, torch, triton, cuda, toolchain (one line), sandbox (layer -> state, once a child
        has run).
        """
        if self._facts is None:
            for kind in ("interpreter", "plain") if self.device == "interpreter" else ("plain",):
                self.server(kind)  # they load side by side
            ready = self.server("plain").wait_ready()
            if self.compiling.wanted("triton"):
                self.server("recorder")  # it warms its compiler while nobody waits
            parts = [f"torch {ready['torch']}", f"triton {ready['triton']}", self.target]
            if self.device == "interpreter":  # another calibration, other numbers
                parts.append(model_for(self.target).name)
            self._facts = {
                "device": self.device,
                "target": self.target,
                **{key: ready[key] for key in ("python", "torch", "triton", "cuda")},
                "toolchain": " ".join(parts),
            }
        return {
            **self._facts,
            "sandbox": self.conductor.layers.get("candidate") or self.conductor.layers.get("admit") or {},
        }

    def settle(self) -> None:
        """Wait until nothing of the last evaluation lives. Raises JudgeError when something will not die."""
        self.conductor.settle()

    @property
    def idle_s(self) -> float:
        """Seconds since the last evaluation ended."""
        return time.monotonic() - self._ended

    def waiting(self) -> list[Child]:
        """Children that wait for the next evaluation: spares, and those that stayed at a problem."""
        return [child for server in self._servers.values() for child in server.waiting()] + self.kept_referees.members()

    def rest(self) -> None:
        """Let go of all that waits for the next evaluation: nobody but the zygotes lives when this returns."""
        self.settle()
        self.kept_referees.clear()
        if self.spares and "plain" in self._servers:
            self._servers["plain"].empty()

    def close(self) -> None:
        """Kill every descendant and remove private folders. Idempotent."""
        self.conductor.release()
        self.kept_referees.forget()
        for server in reversed(self._servers.values()):
            server.close()
        self._servers.clear()
        if self._root is not None:
            wipe(self._root)
            self._root = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- used by the plans ------------------------------------------------------------------------------------------

    @property
    def cores(self) -> CorePlan:
        """Which processors children run on, planned once."""
        self._cores = self._cores or plan_for(self.device)
        return self._cores

    def server(self, kind: str) -> ForkServer:
        """The zygote "plain", "interpreter" or "recorder", started on first use and again after it died."""
        known = self._servers.get(kind)
        if known is not None and known.alive:
            return known
        if known is not None:
            known.close()
        parent = self.server("plain") if kind == "recorder" else None
        self._servers[kind] = ForkServer(
            parent=parent,
            device=self.device if self.device.startswith("cuda") else "cpu",
            target=self.target,
            kind=kind,
            root=self._private(),
            gpu_lock=self._lock_path(),
            cores=self.cores,
        )
        return self._servers[kind]

    def _private(self) -> Path:
        """This bench's own folder."""
        self._root = self._root or private_folder()
        return self._root

    @property
    def baselines(self) -> Baselines | None:
        """Times of baselines and torch.compile's code on this GPU, kept on disk; None where nothing is measured."""
        if not self.device.startswith("cuda"):
            return None
        return Baselines(self.compiling.pool.root / f"baselines-{self.identity}".replace("/", "_").replace(":", "-"))

    def gpu_lock(self) -> int | None:
        """Descriptor of this GPU's lock file; the referee holds it while it uses the GPU. None without a GPU."""
        path = self._lock_path()
        return None if path is None else open_lock(path)

    def _lock_path(self) -> Path | None:
        if not self.device.startswith("cuda"):
            return None
        path = self.lock_folder / f"adaexplore-gpu-{self.device.partition(':')[2] or 0}.lock"
        os.close(open_lock(path))  # it exists from now on
        return path

    def stock(self, limits: Limits, *, least: int | None = None) -> None:
        """Let the next evaluation find its children ready: a CUDA context takes a fifth of a second to make, and that
        disturbs whoever measures. With `least` only when fewer than so many are left."""
        server = self.server("plain") if self.spares else None
        if server is not None and (least is None or len(server.waiting()) < least):
            server.stock(
                self.spares, limits=limits, sandbox=self.sandbox, allow_fork=True, required=self.minimum_sandbox
            )

    # -- inside -----------------------------------------------------------------------------------------------------

    def _environment(self) -> dict[str, Any]:
        facts = self.facts()
        layers = {name: dict(found) for name, found in self.conductor.layers.items()}
        waited = {"ended_waited_s": round(self.conductor.settling_s, 4)} if self.device.startswith("cuda") else {}
        return {**facts, "children": layers, **waited}


def _ms(started: float) -> float:
    return (time.monotonic() - started) * 1000
