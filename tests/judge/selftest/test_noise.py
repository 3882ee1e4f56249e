"""The noise floor: what pairs of equal kernels say of a device, and which kernel says it."""

from __future__ import annotations

import dataclasses
import random

import pytest

from judge.selftest.noise import CASE, Noise, NotRight, calibration_kernel, measure_noise, noise_of
from judge.values import Outcome, ProblemSpec, Verdict
from tests.judge.bench_problems import PROBLEM, SAME
from tests.judge.twin_bench import TwinBench


def test_normal_noise_is_found_at_its_size():
    rng = random.Random(1)
    pairs = [(50.0, 50.0 * rng.lognormvariate(0, 0.02)) for _ in range(1000)]
    found = noise_of(pairs)
    assert found.floor == pytest.approx(0.02, rel=0.1) and found.n == 1000 and found.kernel_us == 50.0
    assert found.low <= 1.0 <= found.high


def test_a_bias_between_processes_is_noise_too():
    assert noise_of([(100.0, 104.0)] * 48).floor > 0.05
    assert noise_of([(100.0, 100.0)] * 48).floor == 0.0


def test_one_wild_pair_in_eight_changes_little():
    rng = random.Random(2)
    pairs = [(50.0, 50.0 * rng.lognormvariate(0, 0.005)) for _ in range(42)]
    assert noise_of([*pairs, *[(50.0, 90.0)] * 6]).floor < 0.008


def test_an_impossible_noise_floor_is_refused():
    for changes in ({"floor": -0.1}, {"n": 0}, {"kernel_us": 0.0}, {"low": 1.1}):
        with pytest.raises(ValueError):
            Noise(**{**dataclasses.asdict(noise_of([(1.0, 1.0)])), **changes})


def test_every_round_is_a_fresh_pair_of_processes_without_an_audit():
    bench = TwinBench(0.01)
    entry = calibration_kernel(timed=True)
    found = measure_noise(bench, entry, rounds=3)
    assert found.n == 3 * 16 and len({job.id for job in bench.jobs}) == 3
    assert all(job.incumbent == job.candidate and job.beat == float("inf") for job in bench.jobs)
    assert all(job.problem.case == CASE for job in bench.jobs)


def test_where_nothing_is_timed_the_kernel_is_small_and_has_no_twin():
    entry = calibration_kernel(timed=False)
    assert entry.problem.case is None and entry.incumbent is None


def test_a_right_kernel_that_does_not_pass_is_no_noise():
    bench = TwinBench(0.01)
    bench.answers = [Outcome(Verdict.CRASHED, stage="smoke", reason="run.died", message="gone")]
    with pytest.raises(NotRight, match=r"crashed \(run.died\): gone"):
        measure_noise(bench, calibration_kernel(timed=True))


@pytest.mark.bench
def test_the_judge_measures_a_kernel_against_itself(cpu_bench):
    """As on a GPU, with the processor's wall clock. How far apart two times are is up to what else runs here."""
    kernel = dataclasses.replace(calibration_kernel(timed=True), candidate=SAME, incumbent=SAME)
    kernel = dataclasses.replace(kernel, problem=ProblemSpec(PROBLEM))
    found = measure_noise(cpu_bench, kernel, rounds=2)
    assert found.n >= 32 and found.n % 2 == 0 and 0 < found.kernel_us < 1e6
    assert found.low <= found.ratio <= found.high


@pytest.mark.bench
def test_the_interpreter_judges_the_kernel_right(interpreter_bench):
    from judge.selftest.noise import check_right

    outcome = check_right(interpreter_bench, calibration_kernel(timed=False))
    assert outcome.verdict is Verdict.PASS and not outcome.timings
