"""Modelled figures are the same in every process, whatever Python salts its hashes with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from judge.bench.processes.forkserver import clean_environment
from judge.bench.runner import Bench
from judge.values import Job, Limits, ProblemSpec
from tests.judge.bench_problems import PROBLEM, TRITON

ROOT = Path(__file__).resolve().parents[3]

# A problem whose content and size come from generators that it seeds with texts, and a kernel that follows them.
FIGURES = """
import json, random, sys
import torch, triton
import triton.language as tl
from judge.bench.foreign.factories import made
from judge.bench.interpreting import interpreter
from judge.bench.interpreting.calibration import Model, model_for
from judge.bench.interpreting.targets import TARGETS
from judge.bench.interpreting.op_traffic import eager_traffic
from judge.bench.interpreting.timemodel import kernel_time_us, modelled_speedup
from judge.bench.timing.modelled import fixed_seed
from tests.benchmarks.calibration.outcome import calibrate
from judge.values import Policy
from tests.benchmarks.calibration_makers import corpus

adapter = interpreter.install("sm_90")

@triton.jit
def gather(x, at, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + tl.load(at + i, mask=m), mask=m), mask=m)

def get_inputs():
    random.seed("of this problem")
    size = random.randrange(2000, 4000)
    random.seed(0.5)
    at = [random.randrange(random.choice([50, 3000, 60000])) for _ in range(size)]
    return [torch.rand(60000), torch.tensor(at)]

def figures():
    seed = fixed_seed("the text of a candidate")
    values, at = made(get_inputs, Policy(), "cpu", seed)
    adapter.reset()
    gather[(triton.cdiv(at.numel(), 128),)](values, at, torch.empty(at.numel()), at.numel(), BLOCK=128)
    candidate = adapter.report()
    eager = eager_traffic(lambda x, i: x[i].clone(), (values, at))
    pairs = corpus(noise=0.1, problems=2)
    calibration = calibrate([pair.traffic for pair in pairs], [pair.times for pair in pairs]).calibration
    return {
        "seed": seed,
        "inputs": [at.numel(), int(at.sum())],
        "traffic": [candidate.to_json(), eager.to_json()],
        "times": {name: kernel_time_us(candidate, target) for name, target in TARGETS.items()},
        "speedups": {name: modelled_speedup(eager, candidate, target) for name, target in TARGETS.items()},
        "models": {name: model_for(name).name for name in [*TARGETS, "sm_75"]},
        "calibration": calibration.to_json(),
        "fresh": Model(calibration.constants, 1.5, 1.3, calibration, here=True).name,
    }

print(json.dumps({"salted": hash("salted"), "figures": figures()}))
"""


def figures(salt: str) -> tuple[int, dict]:
    env = {**os.environ, "PYTHONHASHSEED": salt, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", FIGURES], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr[-3000:]
    found = json.loads(run.stdout.splitlines()[-1])
    return found["salted"], found["figures"]


@pytest.mark.bench
def test_two_processes_with_different_salts_model_the_same() -> None:
    (first, ours), (second, theirs) = figures("1"), figures("2")
    assert first != second  # the salts do differ
    assert {name: ours[name] == theirs[name] for name in ours} == dict.fromkeys(ours, True)
    assert ours["inputs"][0] >= 2000 and ours["times"]["sm_90"][1] > 0


SALTED = TRITON.replace("        return y", "        print('salt', hash('a text'))\n        return y")


@pytest.mark.bench
def test_two_benches_give_a_candidate_the_same_hashes(interpreter_bench) -> None:
    """What a candidate does may follow the order of a set of texts."""
    said = []
    limits = Limits(wall_s=300, stage_s=120)
    job = Job("salt", ProblemSpec(PROBLEM), SALTED, limits=limits, timing=False, beat=float("inf"))
    with Bench("interpreter", alternatives=False) as other:
        for bench in (interpreter_bench, other):
            said.append({line for line in bench.evaluate(job).log.splitlines() if line.startswith("salt")})
    assert said[0] == said[1] and len(said[0]) == 1


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_every_child_hashes_alike(monkeypatch, device) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "random")
    assert clean_environment(device, interpret=True)["PYTHONHASHSEED"] == "0"
