"""The two judges behind one question: how long does this candidate take you, and what do you find?"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, Protocol, Self

from judge.bench.device.gpu_lock import GpuLock
from judge.bench.runner import Bench
from judge.sources.checks import case_for, declared_cases
from judge.values import Job, JudgeError, Limits, Outcome, ProblemSpec, Subject
from tests.benchmarks.comparison.corpus import Entry

ROUNDS, WARM, TIMED = 5, 10, 100
PLAIN_S = 600.0
SCRIPT = Path(__file__).with_name("plain_judge.py")


@dataclass(frozen=True)
class Answer:
    """What one judge made of one candidate. `speedup` only where it was measured."""

    verdict: str
    wall_s: float
    busy_s: float | None = None  # the device's own time for the calls of candidate and reference, where it is known
    alone_s: float | None = None  # nobody else could use the GPU for so long
    speedup: float | None = None
    calls: int | None = None  # timed calls of the candidate
    note: str = ""


class Rival(Protocol):
    """A judge in the comparison. `name` is its column."""

    name: str

    def start(self) -> None:
        """Begin with a new compile cache, and load what stays loaded. Not part of any evaluation."""

    def judge(self, entry: Entry) -> Answer:
        """One evaluation."""

    def close(self) -> None:
        """End every process."""


def case_on(entry: Entry, device: str) -> str | None:
    return case_for("cuda" if device.startswith("cuda") else "interpreter", declared_cases(entry.source))


class Ours:
    """This project's judge, one evaluation at a time; what is no best is not audited."""

    name = "judge"

    def __init__(self, device: str, target: str, minimum_sandbox: frozenset[str]) -> None:
        self.device, self.target, self.minimum_sandbox = device, target, minimum_sandbox
        self.bench: Bench | None = None
        cuda = device.startswith("cuda")
        self.limits = Limits(wall_s=120 if cuda else 60, stage_s=60 if cuda else 30)

    def start(self) -> None:
        self.close()
        self.bench = Bench(self.device, target=self.target, minimum_sandbox=self.minimum_sandbox, alternatives=False)
        self.bench.facts()

    def judge(self, entry: Entry) -> Answer:
        assert self.bench is not None, "start comes first"
        problem = ProblemSpec(entry.source, case_on(entry, self.device))
        job = Job(entry.id, problem, entry.candidate, limits=self.limits, beat=float("inf"))
        started = time.monotonic()
        try:
            outcome = self.bench.evaluate(job)
        except JudgeError as error:
            return Answer("lost", time.monotonic() - started, note=str(error)[:300])
        return self._answer(outcome, time.monotonic() - started)

    def _answer(self, outcome: Outcome, wall_s: float) -> Answer:
        if not self.device.startswith("cuda"):
            return Answer(str(outcome.verdict), wall_s, note=outcome.reason)
        times = {timing.subject: timing for timing in outcome.timings}
        rounds = len(outcome.cases) + WARM
        busy_us = sum((timing.n + rounds) * timing.median_us for timing in times.values())
        mine = times.get(Subject.CANDIDATE)
        return Answer(
            str(outcome.verdict),
            wall_s,
            busy_s=busy_us / 1e6 if times else None,
            alone_s=outcome.environment.get("gpu_alone_s"),
            speedup=outcome.speedup.value if outcome.speedup else None,
            calls=mine.n if mine else None,
            note=outcome.reason,
        )

    def close(self) -> None:
        if self.bench is not None:
            self.bench.close()
            self.bench = None


class Plain:
    """A fresh process for every evaluation; see plain_judge.py. On a GPU it holds the lock that ours would take."""

    name = "plain"

    def __init__(self, device: str, lock: Bench) -> None:
        """`lock`: a bench of the same device, asked for the GPU's lock file and nothing else."""
        self.device, self.lock = device, lock
        self.cache: Path | None = None

    def start(self) -> None:
        self.close()
        self.cache = Path(tempfile.mkdtemp(prefix="adaexplore-plain-"))

    def judge(self, entry: Entry) -> Answer:
        cuda = self.device.startswith("cuda")
        request = {
            "source": entry.source,
            "candidate": entry.candidate,
            "case": case_on(entry, self.device),
            "device": "cuda" if cuda else "cpu",
            "rounds": ROUNDS,
            "warm": WARM if cuda else 0,  # the interpreter's own time says nothing about a kernel
            "timed": TIMED if cuda else 0,
            "seed": 42,
        }
        with ExitStack() as stack:
            self._alone(stack)
            started = time.monotonic()
            answer, note = _called(request, self._environment())
            wall_s = time.monotonic() - started
        return _plain_answer(answer, note, wall_s, timed=cuda)

    def _alone(self, stack: ExitStack) -> None:
        fd = self.lock.gpu_lock()
        if fd is not None:
            stack.callback(os.close, fd)
            lock = GpuLock(fd)
            stack.enter_context(lock.shared())
            stack.enter_context(lock.alone())

    def _environment(self) -> dict[str, str]:
        kept = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "CUDA_HOME", "CC", "TMPDIR")
        env = {name: os.environ[name] for name in kept if name in os.environ}
        env |= {"OMP_NUM_THREADS": "1", "TRITON_CACHE_DIR": str(self.cache), "PYTHONDONTWRITEBYTECODE": "1"}
        if self.device.startswith("cuda"):
            env |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": self.device.partition(":")[2]}
        else:
            env["TRITON_INTERPRET"] = "1"
        return env

    def close(self) -> None:
        if self.cache is not None:
            shutil.rmtree(self.cache, ignore_errors=True)
            self.cache = None


def _called(request: Mapping[str, Any], env: dict[str, str]) -> tuple[dict[str, Any], str]:
    try:
        done = subprocess.run(
            [sys.executable, str(SCRIPT)],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=PLAIN_S,
            env=env,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"verdict": "timed_out"}, f"no answer within {PLAIN_S:.0f} s"
    try:
        return dict(json.loads(done.stdout.splitlines()[-1])), ""
    except (ValueError, IndexError):
        return {"verdict": "crashed"}, done.stderr.strip()[-300:]


def _plain_answer(answer: Mapping[str, Any], note: str, wall_s: float, *, timed: bool) -> Answer:
    eager, candidate = list(answer.get("eager_us", ())), list(answer.get("candidate_us", ()))
    measured = bool(timed and eager and candidate)
    return Answer(
        str(answer["verdict"]),
        wall_s,
        busy_s=answer.get("busy_s") if timed else None,
        alone_s=(sum(eager) + sum(candidate)) / 1e6 if measured else None,
        speedup=median(eager) / median(candidate) if measured else None,
        calls=len(candidate) if measured else None,
        note=note or str(answer.get("message", "")),
    )


class Rivals:
    """Both judges of one device, closed together."""

    def __init__(self, device: str, target: str, minimum_sandbox: frozenset[str]) -> None:
        self._lock = Bench(device, target=target)  # starts nothing by itself
        self.all: tuple[Rival, ...] = (Ours(device, target, minimum_sandbox), Plain(device, self._lock))

    def __enter__(self) -> Self:
        for rival in self.all:
            rival.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for rival in self.all:
            rival.close()
        self._lock.close()
