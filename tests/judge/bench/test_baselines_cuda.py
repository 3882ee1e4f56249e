"""Baselines beside a new best on a real GPU: which are timed, under which switches, and what a loser pays for them."""

from __future__ import annotations

import pytest

from judge.bench.device.nvml import gpus_here
from judge.bench.runner import Bench
from judge.values import Job, Limits, Outcome, Policy, Precision, ProblemSpec, Subject, Verdict
from tests.benchmarks.judge_baselines import OWN, line
from tests.judge.rounds_bench import problem

pytestmark = [pytest.mark.cuda, pytest.mark.bench]
LIMITS = Limits(wall_s=300, stage_s=120)
CONV = OWN["conv2d_relu"]
ATTENTION = problem(
    "return torch.softmax(x[0] @ x[1].transpose(-2, -1) * 0.125, dim=-1) @ x[2]",
    inputs="*(torch.randn(4, 16, 1024, 64) for _ in range(3))",
)


@pytest.fixture(scope="module")
def gpu_bench():
    if not gpus_here():
        pytest.skip("no NVIDIA GPU here")
    with Bench("cuda:0") as bench:
        yield bench


def judged(bench: Bench, source: str, precision: str, number: int = 0, beat: float | None = None) -> Outcome:
    candidate = source.replace("class Model(", "class ModelNew(") + f"# {number}\n"
    spec = ProblemSpec(source, policy=Policy(precision=Precision(precision)))
    outcome = bench.evaluate(Job(f"job {number}", spec, candidate, limits=LIMITS, beat=beat))
    assert outcome.verdict is Verdict.PASS, line("problem", outcome)
    return outcome


def times(outcome: Outcome) -> dict[Subject, float]:
    return {one.subject: one.median_us for one in outcome.timings}


def test_a_strict_convolution_is_told_how_fast_pytorch_ships_and_a_loser_gets_it_for_nothing(gpu_bench):
    first = judged(gpu_bench, CONV, "strict")
    found = times(first)
    assert {Subject.SHIPPED, Subject.BENCHMARK, Subject.CHANNELS_LAST, Subject.COMPILE} <= found.keys(), (
        first.environment
    )
    assert Subject.STRICT not in found and Subject.SDPA not in found
    assert first.over_others["shipped"].over is Subject.SHIPPED
    later = judged(gpu_bench, CONV, "strict", 1, beat=float("inf"))
    assert times(later)[Subject.SHIPPED] == found[Subject.SHIPPED] and "eager_shipped" not in {
        stage.name for stage in later.stages
    }


def test_numerics_as_shipped_reach_every_child(gpu_bench):
    strict, shipped = (judged(gpu_bench, CONV, name) for name in ("strict", "shipped"))
    assert shipped.environment["numerics"]["torch.backends.cudnn.allow_tf32"] is True
    assert strict.environment["numerics"]["torch.backends.cudnn.allow_tf32"] is False
    assert times(shipped)[Subject.EAGER] == pytest.approx(times(strict)[Subject.SHIPPED], rel=0.15)
    worst = max(case.error for case in shipped.cases if case.error is not None)
    assert worst > 10 * max(case.error for case in strict.cases if case.error is not None), "TF32 was used"


def test_attention_written_out_is_timed_as_torchs_own(gpu_bench):
    found = judged(gpu_bench, ATTENTION, "tf32")
    assert Subject.SDPA in times(found), found.environment["baselines"]
