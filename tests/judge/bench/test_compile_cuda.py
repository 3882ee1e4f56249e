"""The compile stage in front of a real GPU: nothing compiled twice, no lock held, lists tuned within two seconds.

.venv/bin/python -m pytest tests/judge/bench/test_compile_cuda.py -q -s -p no:randomly
"""

from __future__ import annotations

import fcntl
import os
import sys
import time

import pytest

from judge.bench.device.gpu_lock import GPU
from judge.bench.processes.artefacts import artefact_key
from judge.bench.runner import Bench
from judge.values import Job, Limits, Outcome, ProblemSpec, Subject, Verdict
from tests.judge.bench.test_cuda_device import BIG, has_gpu
from tests.judge.bench_problems import PROBLEM, TRITON

pytestmark = [pytest.mark.cuda, pytest.mark.bench]

LIMITS = Limits(wall_s=150, stage_s=90)
BROKEN = TRITON.replace("tl.sum(v, 0) / n", "tl.no_such_function(v)")
LIST = "[triton.Config({}, num_warps=w, num_stages=s) for w in (1, 2, 4, 8, 16) for s in range(1, 13)]"
TUNED = TRITON.replace("@triton.jit", f"@triton.autotune({LIST}, key=['n'])\n@triton.jit")

SUMS = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x.sum(dim=0)

def get_inputs():
    return [torch.rand(4096, 512)]

def get_init_inputs():
    return []
"""
ACCUMULATES = """
import torch, triton, triton.language as tl

@triton.autotune([triton.Config({"ROWS": rows}, num_warps=w) for rows in (8, 16, 32, 64) for w in (1, 2, 4)], key=["m"])
@triton.jit
def add_up(x, total, m, n: tl.constexpr, ROWS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = tl.arange(0, n)
    v = tl.load(x + rows[:, None] * n + at[None, :], mask=rows[:, None] < m, other=0.0)
    tl.atomic_add(total + at, tl.sum(v, 0))

class ModelNew(torch.nn.Module):
    def forward(self, x):
        total = torch.zeros(x.shape[1], device=x.device)
        add_up[lambda meta: (triton.cdiv(x.shape[0], meta["ROWS"]),)](x, total, x.shape[0], x.shape[1])
        return total
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("artefacts")


@pytest.fixture(scope="module")
def bench(kept):
    if not has_gpu():
        pytest.skip("no NVIDIA GPU here")
    with Bench("cuda:0", artefacts=kept) as bench:
        yield bench


def judged(bench: Bench, source: str, problem: str = BIG, *, timing: bool = False) -> Outcome:
    started = time.monotonic()
    outcome = bench.evaluate(Job("compile", ProblemSpec(problem), source, limits=LIMITS, timing=timing))
    stages = ", ".join(f"{stage.name} {stage.wall_ms:.0f}" for stage in outcome.stages)
    sys.stdout.write(
        f"\n{outcome.verdict} {outcome.reason} in {time.monotonic() - started:.2f} s; ms: {stages}\n"
        f"  {outcome.stages[min(1, len(outcome.stages) - 1)].detail}; {outcome.environment.get('handover')}\n"
        f"  {outcome.message[:1500]}\n"
    )
    return outcome


def test_the_candidate_finds_everything_compiled(bench):
    for source in (TRITON, TRITON + "# the second time is warm\n", TRITON):
        outcome = judged(bench, source)
        assert outcome.verdict is Verdict.PASS
        row = outcome.environment["handover"]["candidate"]
        assert (row["compiled_here"], row["stubs_built"]) == (0, 0) and row["given"] >= 2
        assert outcome.kernels[0]["regs"] > 0
    assert "known from before" in outcome.stages[1].detail


def test_a_failure_to_compile_needs_neither_context_nor_lock(bench):
    fd = bench.gpu_lock()
    assert fd is not None
    fcntl.lockf(fd, fcntl.LOCK_EX, 1, GPU, os.SEEK_SET)
    try:
        outcome = judged(bench, BROKEN)
        ahead = bench.compile(Job("ahead", ProblemSpec(BIG), TRITON + "# ahead\n", limits=LIMITS))
    finally:
        os.close(fd)
    assert (outcome.verdict, outcome.reason) == (Verdict.COMPILE_FAILED, "compile.error")
    assert set(outcome.environment["children"]) == {"compiler", "recorder"}
    assert ahead.verdict is Verdict.COMPILED_ONLY
    assert "known from before" in judged(bench, TRITON + "# ahead\n").stages[1].detail


def test_a_list_of_sixty_is_tuned_quickly_and_once(bench):
    first = judged(bench, TUNED)
    assert first.verdict is Verdict.PASS
    noted = bench.compiling.pool.known(artefact_key(TUNED, ProblemSpec(BIG).hash, None))
    assert noted is not None and noted["choices"][0]["kernel"] == "norm_gelu"
    sys.stdout.write(f"  chosen: {noted['choices']}\n")
    again = judged(bench, TUNED)
    tuned, known = (next(s.wall_ms for s in outcome.stages if s.name == "smoke") for outcome in (first, again))
    assert again.verdict is Verdict.PASS and known < tuned < 15_000


def test_a_kernel_that_accumulates_is_tuned_on_copies(bench):
    """Triton's own autotuner would add up dozens of times into the candidate's result."""
    assert judged(bench, ACCUMULATES, SUMS).verdict is Verdict.PASS


def test_the_same_kernels_on_small_shapes_are_other_kernels(bench):
    assert judged(bench, TRITON, PROBLEM).environment["handover"]["candidate"]["compiled_here"] == 0


def test_the_compiled_baseline_is_known_after_a_restart(bench, kept):
    spec = ProblemSpec(BIG)
    assert judged(bench, TRITON, timing=True).verdict is Verdict.PASS
    assert bench.baselines is not None
    known = bench.baselines.time(spec, Subject.COMPILE)
    assert known is not None and known.samples_us
    with Bench("cuda:0", artefacts=kept) as restarted:
        assert not restarted.times.unknown(spec, Subject.COMPILE)
        assert restarted.times.time(spec, Subject.COMPILE) == known
