"""A real GPU against itself, and the dearest baseline beside a kernel that becomes the best.

.venv/bin/python -m pytest tests/judge/bench/test_vouching_cuda.py -q -s -p no:randomly
"""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest

from judge.bench.device.nvml import gpu_health, gpus_here
from judge.bench.runner import Bench
from judge.selftest.noise import calibration_kernel, measure_noise
from judge.values import Audit, Job, Limits, ProblemSpec, Subject
from tests.judge.bench.test_cuda_device import gpu_bench, has_gpu, say

pytestmark = [pytest.mark.cuda, pytest.mark.bench]

__all__ = ["gpu_bench"]
HERE = Path(__file__).parents[3]
SOFTMAX = ProblemSpec((HERE / "judge/samples/row_softmax.py").read_text(), "gpu")
KERNEL = (HERE / "tests/benchmarks/comparison/candidates/row_softmax_1.py").read_text()


def test_a_kernel_against_itself_is_near_itself(gpu_bench):
    for _ in range(2):
        started = time.monotonic()
        found = measure_noise(gpu_bench, calibration_kernel(timed=True))
        say(f"floor {found.floor:.2%}, over itself {found.ratio:.4f} [{found.low:.4f}, {found.high:.4f}], n={found.n}")
        say(f"{found.kernel_us:.1f} us a call, {time.monotonic() - started:.1f} s in all")
        assert found.n >= 48 and found.floor < 0.1 and 0.95 < found.ratio < 1.05


def test_the_driver_tells_of_this_gpu():
    found = gpus_here()
    if not found:
        pytest.skip("no NVIDIA GPU here")
    for gpu in found:
        assert gpu_health(gpu.uuid).listed and not gpu_health("GPU-none").listed


def test_max_autotune_is_timed_once_for_a_new_best(tmp_path):
    if not has_gpu():
        pytest.skip("no NVIDIA GPU here")
    with Bench("cuda:0", artefacts=tmp_path) as bench:
        found = []
        for number in range(2):
            started = time.monotonic()
            source, limits = f"{KERNEL}\n# {number}\n", Limits(wall_s=120, stage_s=60)
            asked = frozenset({"autotune"})
            job = Job(uuid.uuid4().hex, SOFTMAX, source, limits=limits, beat=0.01, baselines=asked)
            outcome = bench.evaluate(job)
            assert outcome.audit is Audit.PASSED, outcome
            found.append(next(one for one in outcome.timings if one.subject is Subject.AUTOTUNE))
            say(f"{number}: {found[-1].median_us:.1f} us with max-autotune, {time.monotonic() - started:.1f} s in all")
        assert not found[0].detail.get("cached") and found[1].detail.get("cached")
        assert found[0].detail["precision"] == "strict" and bench.times.time(SOFTMAX, Subject.AUTOTUNE) == found[0]
