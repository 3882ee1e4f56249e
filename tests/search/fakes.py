"""A proposer and a bench that do what a test tells them, without a model or a device."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from judge.values import (
    Audit,
    Basis,
    Job,
    Outcome,
    ProblemSpec,
    SealedCase,
    SpeedCall,
    Speedup,
    Subject,
    Timing,
    Verdict,
)
from search.proposers.protocol import Call, Reply, Task

Answer = Callable[[Task], Reply]


def kernel(task: Task) -> Reply:
    """A source that no other node of the run has, and that depends on nothing but seed and number."""
    return Reply(
        source=f"class ModelNew:\n    seed = {task.seed}\n    number = {task.number}\n",
        summary=f"{task.kind} {task.number}",
        calls=(Call(prompt=f"ask {task.number}", reply="code", model="scripted", tokens_in=3, tokens_out=4),),
    )


@dataclass
class ScriptedProposer:
    """Answers node k by `answers[k]`, other nodes by `kernel`. An answer may raise. Records every task."""

    answers: dict[int, Answer] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    name: str = "scripted"

    def propose(self, task: Task) -> Reply:
        self.tasks.append(task)
        return self.answers.get(task.number, kernel)(task)

    def __call__(self, name: str) -> ScriptedProposer:
        """Stands in for `search.proposers.get`."""
        return self


@dataclass
class FakeBench:
    """Judges in order: `outcomes[k]` for the k-th evaluation (from 0), then passes at a speedup that depends on the
    source alone. Records every job."""

    outcomes: dict[int, Outcome | Exception] = field(default_factory=dict)
    jobs: list[Job] = field(default_factory=list)

    def evaluate(self, job: Job, *, progress: Any = None) -> Outcome:
        self.jobs.append(job)
        given = self.outcomes.get(len(self.jobs) - 1)
        if isinstance(given, Exception):
            raise given
        return given or passed(1.0 + (sum(job.candidate.encode()) % 97) / 50)

    def seal(self, problem: ProblemSpec, *, seed: str, limits: Any = None) -> tuple[SealedCase, ...]:
        """Derives nothing."""
        return ()

    def time_baselines(self, problem: ProblemSpec, *, limits: Any = None) -> tuple[Timing, ...]:
        """Times none."""
        return ()

    def facts(self) -> dict[str, object]:
        return {"toolchain": "fake 1"}

    def close(self) -> None:
        """Nothing to close."""

    def __call__(self, device: Any) -> FakeBench:
        """Stands in for `judge.devices.benches.bench_for`."""
        return self


def passed(speedup: float) -> Outcome:
    """A pass at this speedup, modelled."""
    return Outcome(
        Verdict.PASS,
        stage="timing",
        loads=True,
        timings=(
            Timing(Subject.CANDIDATE, Basis.MODELLED, "traffic_model", (10.0,), 10.0, 9.0, 12.0),
            Timing(Subject.EAGER, Basis.MODELLED, "traffic_model", (10.0 * speedup,), 10.0 * speedup, 1.0, 1e6),
        ),
        speedup=Speedup(speedup, speedup * 0.9, speedup * 1.1, 1, Basis.MODELLED),
        audit=Audit.PASSED,
    )


def wrong() -> Outcome:
    """Loads, but computes something else."""
    return Outcome(Verdict.WRONG, stage="correctness", reason="value.mismatch", message="off by 3", loads=True)


def raced(ratio: float, call: SpeedCall) -> Outcome:
    """A pass on a GPU, measured beside another kernel."""
    found = Speedup(ratio, ratio * 0.99, ratio * 1.01, 60, Basis.MEASURED, Subject.INCUMBENT, call)
    plain = passed(2.0)
    timings = tuple(dataclasses.replace(one, basis=Basis.MEASURED) for one in plain.timings)
    speedup = Speedup(2.0, 1.9, 2.1, 60, Basis.MEASURED)
    return dataclasses.replace(plain, timings=timings, speedup=speedup, versus_incumbent=found)


class Killed(BaseException):
    """Stands for the death of a process: nothing catches it."""
