"""Starts, bounds, talks to and kills the bench children. Standard library only; never imports torch."""

from __future__ import annotations

import dataclasses
import math
import os
import secrets
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from judge.bench.compiling.plan import CompilePlan
from judge.bench.compiling.report import CompileReport
from judge.bench.compiling.stage import COMPILE, CompileStage, StubPlan, open_pool, outcome_of
from judge.bench.device.gpu_lock import open_lock
from judge.bench.device.lock_table import LockTable
from judge.bench.device.nvml import gpu_readings
from judge.bench.exchange import seal
from judge.bench.exchange.fields import BadClaim
from judge.bench.exchange.reports import Sealed, heard
from judge.bench.exchange.wire import WireGarbage
from judge.bench.foreign.sources import LoadError, check_source
from judge.bench.interpreting.calibration import model_for
from judge.bench.interpreting.targets import target as target_named
from judge.bench.processes.baselines import Baselines, KnownTimes
from judge.bench.processes.child_group import ChildGroup
from judge.bench.processes.children import Child, private_folder, wipe
from judge.bench.processes.cores import CorePlan, plan_for
from judge.bench.processes.forkserver import ForkServer
from judge.bench.processes.jobs import BREAKS_OFF, BREAKS_OFF_FIX, AdmissionPlan, EvaluationPlan, SealingPlan
from judge.bench.processes.kept_referees import AHEAD_S, KeptReferees
from judge.bench.processes.listening import FORGES_FIX, Listening
from judge.bench.processes.stopping import look
from judge.bench.processes.watching import Broken, Watch, fit_to_stay
from judge.bench.sandboxing.sandbox import missing
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
    canonical_text,
)

Progress = Callable[[StageRecord], None]
DEFAULT_LIMITS = Limits()
SPARES = 5  # referee, candidate, eager, best so far, one more; about 650 MB of GPU memory each
PRESSED_S = 0.5
STEP_S = 0.25
CROWDED = 0.2  # of a GPU's memory in other hands


KNOWN = ProblemSpec(
    """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1


def get_inputs():
    return [torch.rand(16, 16)]


def get_init_inputs():
    return []
"""
)
AS_CANDIDATE = "\n\nclass ModelNew(Model):\n    pass\n"
KNOWN_RIGHT = KNOWN.source.replace("class Model(", "class ModelNew(")


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
        self._leaving: ChildGroup | None = None  # killed, and perhaps not yet gone: a CUDA context takes its time
        self._root: Path | None = None
        self._servers: dict[str, ForkServer] = {}
        self.times = KnownTimes(lambda: self.baselines)
        self._facts: dict[str, Any] | None = None
        self.compiling = CompileStage(
            self,
            self._conduct,
            lambda: open_pool(artefacts or self._private() / "artefacts", str(self.facts()["toolchain"])),
        )
        self._cores = cores
        self._last_layers: dict[str, dict[str, str]] = {}

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
                report = plan.admission(*self._conduct(plan, limits, progress))
            except JudgeError:
                pass  # its child may not even have had a context
            else:
                if report.reason != "problem.memory":
                    return report
            self.rest()
        plan = AdmissionPlan(self, problem, limits)
        return plan.admission(*self._conduct(plan, limits, progress))

    def seal(self, problem: ProblemSpec, *, seed: str, limits: Limits = DEFAULT_LIMITS) -> tuple[SealedCase, ...]:
        """Cases that the reference takes, derived from a secret `seed` (hexadecimal); () where there are none, or where
        the problem ended its process on one. Raises JudgeError."""
        if len(self.kept_referees):
            self.rest()  # they hold memory that the reference may want
        plan = SealingPlan(self, problem, seed, limits)
        return plan.cases(*self._conduct(plan, limits, None))

    def evaluate(self, job: Job, *, progress: Progress | None = None) -> Outcome:
        """Judge one candidate. Always returns an Outcome; a hung or dead child is a verdict too."""
        started = time.monotonic()
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
            outcome = plan.outcome(*self._conduct(plan, job.limits, progress))
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
            return plan.outcome(*self._conduct(plan, job.limits, progress))
        except UnclearFault as error:
            return self._cleared(plan, job.limits, error)

    def _cleared(self, plan: EvaluationPlan, limits: Limits, error: UnclearFault) -> Outcome:
        """Whose fault it was that a new referee came to no verdict: the problem's, which ran in that process, where the
        bench can judge a known problem right after it. Raises JudgeError where it cannot: the device's; UnclearFault
        where the referee itself had given up.
        """
        self.rest()
        if plan.gave_up and self._crowded():
            raise JudgeError(str(error)) from error
        known = EvaluationPlan(self, Job("known", KNOWN, KNOWN_RIGHT, limits=limits, timing=False, beat=math.inf))
        try:
            body, _ = self._conduct(known, limits, None)
        except JudgeError as second:
            raise JudgeError(f"{error}; nor could a known problem be judged: {second}") from error
        self.kept_referees.clear()
        if body is None:
            raise JudgeError(f"{error}; nor could a known problem be judged") from error
        if plan.gave_up:
            raise error
        message = f"its process came to no verdict, and that of a known problem did right after: {error}"
        return plan.refused(BREAKS_OFF, message, BREAKS_OFF_FIX)

    def _crowded(self) -> bool:
        """Whether others hold much of the GPU's memory while nobody of ours does; so too where its driver is silent."""
        if not self.device.startswith("cuda"):
            return False
        found = gpu_readings().get(self.identity)
        if found is None or found.memory_used is None or not found.memory_total:
            return True
        return found.memory_used > CROWDED * found.memory_total

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
        outcome = plan.outcome(*self._conduct(plan, limits, None))
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
        return {**self._facts, "sandbox": self._last_layers.get("candidate") or self._last_layers.get("admit") or {}}

    def settle(self) -> None:
        """Wait until nothing of the last evaluation lives. Raises JudgeError when something will not die."""
        group, self._leaving = self._leaving, None
        if group is not None:
            group.close()
        self.kept_referees.settle()

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
        group, self._leaving = self._leaving, None  # the zygotes end with their children, the folders go with ours
        for child in group.members.values() if group is not None else ():
            child.release()
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

    def _conduct(
        self, plan: AdmissionPlan | EvaluationPlan | CompilePlan | StubPlan, limits: Limits, progress: Progress | None
    ) -> tuple[Any, ChildGroup]:
        """Run a plan's children to their end. Returns the signed body, or None when no valid verdict came."""
        key, nonce = secrets.token_hex(32), secrets.token_hex(16)
        sealed: Sealed | None = None
        self.settle()
        waits = not self.device.startswith("cuda")
        staying: dict[str, Child] = {}
        with ChildGroup(limits, sandbox=self.sandbox, required=self.minimum_sandbox, waits=waits) as group:
            self._leaving = None if waits else group
            plan.start(group, key=key, nonce=nonce)
            plan.watch = Watch(limits, self._lock_table(), memory=waits)
            deadline = time.monotonic() + limits.wall_s + plan.grace_s  # from here: starting a bench is not its time
            while (
                sealed is None and plan.broken is None and (left := deadline + plan.waited_s() - time.monotonic()) > 0
            ):
                look()
                sealed = self._heard(plan, group, min(STEP_S, left), nonce, progress)
                if sealed is None and group.ended(plan.judge):
                    sealed = self._heard(plan, group, 0, nonce, progress)
                    break
                plan.look(group, limits)
            if sealed is not None and not seal.verified(sealed.body, sealed.mac, key=key, nonce=nonce):
                plan.broken = Broken("problem.forges", "it sent a verdict of its own", FORGES_FIX)
            if plan.broken is not None:
                sealed = None
            plan.settle(group)
            self._last_layers = {name: child.layers or {} for name, child in group.members.items()}
            self._require_layers()
            staying = plan.staying(group) if isinstance(plan, EvaluationPlan) and sealed is not None else {}
            if staying and not all(fit_to_stay(child) for child in staying.values()):
                staying = {}
            group.kept = set(staying)
        if isinstance(plan, EvaluationPlan) and staying:
            self.kept_referees.keep(plan.problem_key, staying, freeze_after_s=0.0 if waits else AHEAD_S)
        if plan.scarce:
            self.kept_referees.clear()
        return (sealed.body if sealed else None), group

    @staticmethod
    def _heard(
        plan: Listening, group: ChildGroup, wait_s: float, nonce: str, progress: Progress | None
    ) -> Sealed | None:
        """The verdict, once it has come; every message until then is taken note of. One that is none of ours breaks a
        bound of the problem."""
        try:
            for message in group.step(wait_s, plan.judge):
                verdict = plan.hear(heard(message, nonce), progress)
                if verdict is not None:
                    return verdict
        except (BadClaim, WireGarbage) as error:
            plan.broken = Broken("problem.forges", f"it sent {error}", FORGES_FIX)
        return None

    def _lock_table(self) -> LockTable | None:
        fd = self.gpu_lock()
        if fd is None:
            return None
        try:
            return LockTable(fd)
        finally:
            os.close(fd)

    def _require_layers(self) -> None:
        for name, layers in self._last_layers.items():
            gaps = missing(layers, sorted(self.minimum_sandbox))
            if gaps and layers:
                raise JudgeError(f"required sandbox layers are not active in the {name} child: {', '.join(gaps)}")

    def _environment(self) -> dict[str, Any]:
        facts = self.facts()
        layers = {name: dict(found) for name, found in self._last_layers.items()}
        return {**{k: v for k, v in facts.items() if k != "sandbox"}, "sandbox": facts["sandbox"], "children": layers}


def as_loaded(job: Job) -> Job:
    """The job with its kernels as children load them."""
    incumbent = None if job.incumbent is None else canonical_text(job.incumbent).text
    return dataclasses.replace(job, candidate=canonical_text(job.candidate).text, incumbent=incumbent)


def placed(outcome: Outcome, written: str) -> Outcome:
    """The outcome with places in the candidate as lines of what was `written`."""
    source = canonical_text(written)
    findings = tuple(
        dataclasses.replace(finding, message=source.in_source(finding.message)) for finding in outcome.findings
    )
    return dataclasses.replace(
        outcome, message=source.in_source(outcome.message), log=source.in_source(outcome.log), findings=findings
    )


def _ms(started: float) -> float:
    return (time.monotonic() - started) * 1000
