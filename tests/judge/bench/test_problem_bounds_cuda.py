"""On a GPU: a referee that stays is stopped without the lock, one that keeps the GPU is its problem's fault, and what
is not wanted any more leaves the device within seconds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from judge.bench.device.nvml import gpus_here
from judge.bench.processes.stopping import stoppable
from judge.bench.runner import Bench
from judge.values import Job, Limits, Outcome, ProblemSpec, Stopped, Verdict
from tests.judge.bench_problems import PROBLEM, SAME, candidate

pytestmark = [pytest.mark.cuda, pytest.mark.bench]

KEEPS_GPU = PROBLEM.replace(
    "        return torch",
    """        import fcntl, os
        for fd in range(3, 256):
            try:
                if "adaexplore-gpu" in os.readlink(f"/proc/self/fd/{fd}"):
                    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            except OSError:
                pass
        import time
        for _ in range(300):
            time.sleep(0.1)
        return torch""",
)


@pytest.fixture(scope="module")
def gpu_bench():
    if not gpus_here():
        pytest.skip("no NVIDIA GPU here")
    with Bench("cuda:0") as bench:
        yield bench


def judged(bench: Bench, problem: str = PROBLEM, source: str = SAME, *, stage_s: float = 60) -> Outcome:
    limits = Limits(wall_s=120, stage_s=stage_s)
    return bench.evaluate(Job("x", ProblemSpec(problem), source, limits=limits, beat=float("inf")))


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_referee_is_stopped_without_the_lock_and_goes_on(gpu_bench):
    assert judged(gpu_bench).verdict is Verdict.PASS
    stayed = {child.pid for child in gpu_bench.kept_referees.members()}
    assert stayed
    while {state_of(pid) for pid in stayed} != {"T"}:
        time.sleep(0.05)
    table = gpu_bench.conductor._lock_table()
    assert table is not None and not {row.pid for row in table.held()} & stayed
    assert judged(gpu_bench).verdict is Verdict.PASS
    assert {child.pid for child in gpu_bench.kept_referees.members()} == stayed


def test_a_problem_that_keeps_the_gpu_is_refused(gpu_bench):
    outcome = judged(gpu_bench, KEEPS_GPU, stage_s=5)
    assert outcome.verdict is Verdict.REFUSED_PROBLEM
    assert outcome.reason in ("problem.keeps_gpu", "problem.timeout")
    assert judged(gpu_bench).verdict is Verdict.PASS


def test_an_evaluation_that_is_not_wanted_leaves_the_gpu(gpu_bench):
    begun: list[str] = []
    with stoppable(lambda: bool(begun)), pytest.raises(Stopped):
        job = Job("x", ProblemSpec(PROBLEM), candidate("time.sleep(1000)"), beat=float("inf"))
        gpu_bench.evaluate(job, progress=lambda stage: begun.append(stage.name))
    gpu_bench.settle()
    table = gpu_bench.conductor._lock_table()
    assert table is not None and not any(row.alone for row in table.held())
    assert judged(gpu_bench).verdict is Verdict.PASS
