"""What children an admission or an evaluation needs, and what their endings mean. Standard library only."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable
from dataclasses import asdict, replace
from typing import Any

from judge.bench.exchange.fields import BadClaim
from judge.bench.exchange.reports import (
    CASES_TIMED,
    CASES_WALLS,
    PASSES,
    Doing,
    Looks,
    Needs,
    Report,
    Sealed,
    Times,
)
from judge.bench.exchange.verdicts import outcome_of
from judge.bench.exchange.wire import Message
from judge.bench.foreign.reach import reached
from judge.bench.foreign.sources import defined_kernels
from judge.bench.processes.child_group import ChildGroup
from judge.bench.processes.children import Child
from judge.bench.processes.cores import NICE
from judge.bench.processes.inspection import Inspector
from judge.bench.processes.kept_referees import BASELINE
from judge.bench.processes.killed import Cause
from judge.bench.processes.listening import FORGES_FIX, Host, Listening, Progress, own_lack_of_memory
from judge.bench.processes.placing import Mover
from judge.bench.processes.subject_starter import SubjectStarter
from judge.bench.processes.watching import Broken
from judge.values import (
    ALTERNATIVES,
    AdmissionReport,
    Baseline,
    Basis,
    Job,
    JudgeError,
    Limits,
    Outcome,
    ProblemSpec,
    SealedCase,
    StageRecord,
    UnclearFault,
    Verdict,
)
from judge.values.rebuilding import MALFORMED, rebuilt

FIXES = {
    "problem.timeout": "look for an endless loop, or make the shapes smaller",
    "problem.memory": "make the shapes smaller",
    "problem.raises": "remove calls that exit or crash the process",
}
BREAKS_OFF = "problem.breaks_off"
BREAKS_OFF_FIX = "remove threads, exits and whatever else works on beside forward()"
STAGE_CHARS = 20
CASE_PASSES = frozenset(f"{CASES_TIMED} {number}" for number in range(1, PASSES + 1))
TIMING_S = 8.0  # a slow reference gets fewer repetitions after this


class AdmissionPlan(Listening):
    """One sandboxed child that imports the problem and examines it."""

    judge = role = "admit"

    def __init__(self, bench: Host, problem: ProblemSpec, limits: Limits) -> None:
        super().__init__()
        self.bench, self.problem, self.limits = bench, problem, limits

    def start(self, group: ChildGroup, *, key: str, nonce: str) -> None:
        server = self.bench.server("plain")
        child = group.start("admit", server)
        if not self.bench.cores.divided:  # else it is not where others are timed
            server.place(child, nice=NICE)
        device = "cuda:0" if self.bench.device.startswith("cuda") else self.bench.device
        problem = {"source": self.problem.source, "case": self.problem.case, "policy": self.problem.policy.to_json()}
        payload = {"role": self.role, "key": key, "nonce": nonce, **problem, "device": device, **self.more()}
        group.assign("admit", payload, lock_fd=self.bench.gpu_lock())

    def more(self) -> dict[str, Any]:
        """What the child is told beside the problem."""
        return {}

    def admission(self, body: Any, group: ChildGroup) -> AdmissionReport:
        """The child's report, or a refusal that says how the problem ended its process."""
        if body is not None:
            try:
                return AdmissionReport.from_json(body)
            except MALFORMED:
                self.broken = Broken("problem.forges", "it sent a report that is none", FORGES_FIX)
        if self.broken is not None:
            return self._refused(self.broken.reason, self.broken.message, self.broken.fix)
        child = group.members["admit"]
        if not self.began:
            raise JudgeError(f"the preflight child ended before it read the problem: {child.ending()} {child.tail()}")
        reason, message = self.fault_of_problem(child, self.limits)
        fix = FIXES[reason]
        if reason == "problem.memory" and not self.bench.device.startswith("cuda"):
            fix += f"; {self.limits.memory_mb:,} MiB are the limit"
        return self._refused(reason, message, fix)

    def _refused(self, reason: str, message: str, fix: str) -> AdmissionReport:
        finished = {stage.name for stage in self.stages}
        stage = StageRecord("run" if self.doing in finished else self.doing, "failed", 0.0, message, fix)
        return AdmissionReport(
            "refused",
            reason=reason,
            message=f"{message}; {fix}",
            case=self.problem.case,
            stages=(*self.stages, stage),
        )


class SealingPlan(AdmissionPlan):
    """One sandboxed child that derives sealed cases from a secret seed (hexadecimal)."""

    role = "seal"

    def __init__(self, bench: Host, problem: ProblemSpec, seed: str, limits: Limits) -> None:
        super().__init__(bench, problem, limits)
        self.seed = seed

    def more(self) -> dict[str, Any]:
        return {"seed": self.seed}

    def cases(self, body: Any, group: ChildGroup) -> tuple[SealedCase, ...]:
        """What the child found; () where the problem ended its process. Raises JudgeError."""
        if body is None:
            if not self.began:
                ending = group.members["admit"].ending()
                raise JudgeError(f"the sealing child ended before it read the problem: {ending}")
            return ()
        try:
            return tuple(rebuilt(SealedCase, row) for row in body["cases"])
        except MALFORMED:
            return ()


class EvaluationPlan(Listening):
    """A referee and the children it talks to, each in a process of its own."""

    judge = "referee"
    grace_s = 15.0

    def __init__(self, bench: Host, job: Job, *, ahead: bool = False) -> None:
        """`ahead`: baselines that nobody has timed are timed beside this candidate, whether it is a best or not."""
        super().__init__()
        self.bench, self.job, self.ahead = bench, job, ahead
        self.starter = SubjectStarter(bench, job)
        self.inspector = Inspector()
        self.mover = Mover(bench.cores)
        self._audits = False
        self._beside_best: list[Baseline] = []  # what the referee may time there
        self._own_s: dict[str, float] = {}  # time limits of their stages, once begun
        self.hung = False  # the referee was ended at its limit
        self.adopted = False  # the referee has stayed from an earlier evaluation
        self.group: ChildGroup | None = None
        self.endings: dict[str, str] = {}
        self.handed_over: dict[str, dict[str, int]] = {}

    def start(self, group: ChildGroup, *, key: str, nonce: str) -> None:
        self.group = group
        roles = self._subjects()
        stayed = self.bench.kept_referees.take(self.problem_key)
        self.adopted = bool(stayed)
        for name, child in stayed.items():
            group.adopt(name, child)
        if not stayed:
            group.start("referee", self.bench.server("plain"))
        roles = {name: mode for name, mode in roles.items() if name not in stayed}
        links = [self.starter.start(group, name, mode) for name, mode in roles.items()]
        payload = {"role": "referee", "key": key, "nonce": nonce, "subjects": list(roles), **self._questions()}
        group.assign("referee", payload, links, self.bench.gpu_lock())
        self.bench.stock(self.job.limits, least=1)  # while these load; whoever measures waits until they are ready

    @property
    def problem_key(self) -> Hashable:
        """What a referee that stays can judge: candidates of the same problem under the same limits."""
        problem = self.job.problem
        sealed = json.dumps([asdict(case) for case in problem.sealed], sort_keys=True)
        return (problem.source, problem.case, problem.policy, sealed, self.job.limits)

    def staying(self, group: ChildGroup) -> dict[str, Child]:
        """Members that may take part in another evaluation; the referee says whether it will, and with whom."""
        if "referee" not in self.stays or group.ended("referee") is not None:
            return {}
        names = [name for name in ("referee", BASELINE) if name in self.stays and name in group.members]
        return {name: group.members[name] for name in names}

    def _subjects(self) -> dict[str, str]:
        """Child name -> mode, for those that take part from the start on this device."""
        if self.bench.device == "interpreter":
            return {"candidate": "run", "recorder": "record"}
        roles = {"candidate": "run"}
        if self.job.timing:
            roles["eager"] = "eager"
            if self.job.incumbent is not None and not self._screens:
                roles["incumbent"] = "incumbent"
        return roles

    @property
    def _screens(self) -> bool:
        """Whether the best so far takes part only where the candidate may beat it: most do not, and its process has a
        context and a model of its own."""
        beat = self.job.beat
        return self.job.incumbent is not None and beat is not None and 0 < beat < math.inf

    def untimed(self) -> list[Baseline]:
        """Baselines that are to be timed beside a new best, and have not been."""
        return [
            one
            for one in ALTERNATIVES
            if (one.name in self.job.baselines if one.setting else self.bench.alternatives)
            and self.bench.times.unknown(self.job.problem, one.subject)
        ]

    def hear(self, report: Report, progress: Progress | None) -> Sealed | None:
        match report:
            case Needs() if self.group is not None:
                self.starter.provide(self.group, report.wanted, self.group.members["referee"].boss)
            case Looks() if self.group is not None:
                self.inspector.answer(self.group.members, report.name, self.group.members["referee"].boss)
            case Times() if self.group is not None:
                self.mover.answer(self.group.members, report.names, self.group.members["referee"].boss)
            case Doing():
                if report.stage == "audit" and not self._audits:
                    self._audits = True
                    self.bench.stock(self.job.limits)  # it is the last to ask for many: the next evaluation finds them
                if report.stage == "cases":  # those of get_cases() that are not timed
                    self._own_s["cases"] = self.job.limits.wall_s
                if report.stage in CASE_PASSES:
                    self._own_s[report.stage] = CASES_WALLS * self.job.limits.wall_s
                self._own_s |= {one.name: one.limit_s for one in self._beside_best if report.stage == one.stage}
        return super().hear(report, progress)

    def waited_s(self) -> float:
        """Seconds by which the wall limit is exceeded rightly: an audit has one of its own, and so have a
        baseline and the cases that are not timed."""
        return super().waited_s() + (self.job.limits.wall_s if self._audits else 0.0) + sum(self._own_s.values())

    def _questions(self) -> Message:
        """What the referee has to find out, and what is known already."""
        limits = self.job.limits
        known = {one.name: self.bench.times.time(self.job.problem, one.subject) for one in ALTERNATIVES}
        measured = self.job.timing and self.bench.device != "interpreter"
        self._beside_best = self.untimed() if measured else []
        return {
            "stay": self.bench.kept_referees.most > 0,
            "source": self.job.problem.source,
            "case": self.job.problem.case,
            "wall_s": limits.wall_s,
            "stage_s": limits.stage_s,
            "timing": self.job.timing,
            "timing_s": min(TIMING_S, limits.stage_s),
            "basis": "modelled" if self.bench.device == "interpreter" else "measured",
            "known_us": {
                name: {"method": timing.method, "samples_us": list(timing.samples_us)}
                for name, timing in known.items()
                if timing is not None
            },
            "luck": asdict(luck) if (luck := self.bench.times.luck(self.job.problem)) is not None else None,
            "beside_best": [one.name for one in self._beside_best],
            "ahead": self.ahead,
            "beat": self.job.beat,
            "screen": measured and self._screens,
            "policy": self.job.problem.policy.to_json(),
            "sealed": [asdict(case) for case in self.job.problem.sealed],
            "defined": defined_kernels(self.job.candidate),
            "reaches": reached(self.job.candidate),
        }

    def settle(self, group: ChildGroup) -> None:
        super().settle(group)
        self.handed_over = self.starter.settle()
        for name in group.members:
            child = group.ended(name)
            if child is not None:
                self.endings[name] = self.ended_for.get(name) or child.ending()

    def outcome(self, body: Any, group: ChildGroup) -> Outcome:
        """The referee's verdict, completed by what only the runner knows: exit status, output, sandbox."""
        log = _log(group.members["candidate"])
        if body is None:
            return replace(self._without_verdict(group), log=log)
        basis = Basis.MODELLED if self.bench.device == "interpreter" else Basis.MEASURED
        try:
            said = outcome_of(body, basis=basis, timed=self.job.timing, raced=self.job.incumbent is not None)
        except BadClaim as error:
            self.broken = Broken("problem.forges", f"it sent {error}", FORGES_FIX)
            return replace(self._without_verdict(group), log=log)
        outcome = replace(said, log=log)
        if self.handed_over:
            outcome = replace(outcome, environment={**outcome.environment, "handover": self.handed_over})
        if outcome.reason.endswith(".died"):
            return self._died(outcome, group)
        return outcome

    def _died(self, outcome: Outcome, group: ChildGroup) -> Outcome:
        name = str(outcome.environment.get("failed_child", "candidate"))
        child = group.members.get(name, group.members["candidate"])
        how = self.endings.get(name) or self.ended_for.get(name) or child.ending()
        if not child.layers and name not in self.endings:
            raise UnclearFault(f"the referee said that {name[:40]} had ended, and it lives")
        if not child.layers:  # it says them before it reads anything foreign: no memory for a CUDA context, say
            raise JudgeError(f"the {name} child ended before it had an assignment: {how} {child.tail()}")
        if child.cause is Cause.JUDGE and name not in self.ended_for:
            how = "it closed its connection and lived on"  # until it was ended with the evaluation
        if outcome.verdict is Verdict.REFUSED_PROBLEM:  # a baseline
            if child.killed_for_memory:
                raise UnclearFault(f"the {name} child found too little memory: {how}")
            return replace(outcome, reason="problem.raises", message=f"{outcome.message}: {how}")
        if child.killed_for_memory:
            own_lack_of_memory(child, self.job.limits)
            reason = outcome.reason.replace(".died", ".oom")
            message = f"{outcome.message}, which used too much memory: {how}"
            return replace(outcome, verdict=Verdict.OUT_OF_MEMORY, reason=reason, message=message)
        if child.out_of_time:
            reason = outcome.reason.replace(".died", ".timeout")
            message = "the candidate used up its processor time"
            return replace(outcome, verdict=Verdict.TIMED_OUT, reason=reason, message=message)
        return replace(outcome, message=f"{outcome.message}: {how}")

    def _without_verdict(self, group: ChildGroup) -> Outcome:
        if self.broken is not None:
            return self.refused(self.broken.reason, self.broken.message, self.broken.fix)
        referee = group.members["referee"]
        self.hung = referee.killed
        if self.waits:
            raise JudgeError(f"another process kept the GPU for {super().waited_s():.0f} s")
        if not self.began:
            raise JudgeError(f"the referee ended before it read the problem: {referee.ending()} {referee.tail()}")
        if self.gave_up and self.doing == "problem":  # later ones may tell of sealed cases
            raise UnclearFault(self.gave_up)
        if not self._is_the_problems(referee):
            where = f", in {self.inside}" if self.inside else ""
            said = "" if self._audits and self.job.problem.sealed else referee.tail()  # it may tell a sealed case
            raise UnclearFault(f"the referee gave no verdict in stage {self.doing}{where}: {referee.ending()} {said}")
        reason, message = self.fault_of_problem(referee, self.job.limits)
        return self.refused(reason, message, FIXES[reason])

    def refused(self, reason: str, message: str, fix: str) -> Outcome:
        """The problem's own fault."""
        return Outcome(
            Verdict.REFUSED_PROBLEM,
            stage=self.doing[:STAGE_CHARS],
            reason=reason,
            message=f"the reference: {message}; {fix}",
            stages=tuple(self.stages),
        )

    def _is_the_problems(self, referee: Child) -> bool:
        """Before the candidate does anything, a referee's end is the problem's doing; afterwards only inside its code.

        Memory that ran out then may have been the candidate's: that is nobody's fault.
        """
        return self.doing == "problem" or bool(self.inside and not referee.killed_for_memory)


def _log(child: Child) -> str:
    text = bytes(child.log).decode("utf-8", "replace")
    return text + (f"\n[{child.log_dropped:,} more bytes were dropped]" if child.log_dropped else "")
