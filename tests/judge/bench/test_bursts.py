"""The trusted clock: what a subject hides from its own clock, the referee's wall clock between bursts still sees."""

from __future__ import annotations

import pytest

from judge.bench.device.statistics import LOOKS
from judge.bench.timing.enough import CHECKS, MOST, PRECISE, TIME
from judge.bench.timing.trusted import CPU
from judge.values import SpeedCall, Verdict
from tests.judge.bench_problems import PROBLEM, believed, candidate, judge

pytestmark = [pytest.mark.bench, pytest.mark.quiet]

SLOW = "z = x\nfor _ in range(100): z = (z + 1.0).relu() - z.relu()\n"
LIE = """
def lie():
    from judge.bench.device.clocks import WallClock
    from judge.bench.subjects.harness import Harness
    WallClock.stop = lambda self: 3.0
    Harness.touched = lambda self: []
"""


def finding(outcome, code):
    return next((row for row in outcome.findings if row.code == code), None)


def test_an_honest_time_is_supported_by_the_referees_own_clock(cpu_bench):
    outcome = believed(lambda: judge(cpu_bench, candidate("return self.right(x)"), timing=True))
    assert outcome.verdict is Verdict.PASS, outcome
    trusted = finding(outcome, "time.trusted")
    assert trusted is not None and trusted.data["calls"] >= 2
    assert trusted.data["supported"] and trusted.data["attempts"] >= CPU.least


def test_a_patched_clock_is_found_by_bursts(cpu_bench):
    source = LIE + candidate(f"lie()\n{SLOW}return self.right(x)")
    outcome = judge(cpu_bench, source, timing=True)
    assert (outcome.verdict, outcome.reason) == (Verdict.SUSPECT, "time.mismatch"), outcome
    assert "claimed to take 3.0 µs" in outcome.message and outcome.speedup is None


def test_a_patched_clock_is_named_where_nobody_hides_it(cpu_bench):
    outcome = judge(cpu_bench, "import time\ntime.perf_counter_ns = lambda: 0\n" + candidate("return self.right(x)"))
    assert (outcome.verdict, outcome.reason) == (Verdict.DISHONEST, "tamper.harness"), outcome
    assert "time.perf_counter_ns" in outcome.message


def test_a_candidate_that_is_no_would_be_best_is_not_burst(cpu_bench):
    outcome = judge(cpu_bench, candidate("return self.right(x)"), timing=True, beat=float("inf"))
    assert outcome.verdict is Verdict.PASS and finding(outcome, "time.trusted") is None


def test_random_outputs_are_checked_in_bursts_as_draws_for_their_content(cpu_bench):
    problem = PROBLEM.replace("return torch", "return torch.nn.functional.dropout(x, 0.5, True) + 0 * torch", 1)
    source = problem.replace("class Model(", "class ModelNew(")
    outcome = believed(lambda: judge(cpu_bench, source, problem=problem, timing=True))
    assert outcome.verdict is Verdict.PASS and outcome.speedup is not None, outcome
    assert finding(outcome, "time.trusted") is not None and finding(outcome, "time.unchecked") is None


def test_a_measured_speedup_says_what_the_pairs_decided(cpu_bench):
    outcome = judge(cpu_bench, candidate(f"{SLOW}return self.right(x)"), timing=True, beat=float("inf"))
    assert outcome.speedup is not None and outcome.speedup.call is SpeedCall.SLOWER
    assert outcome.speedup.n in {*LOOKS, *CHECKS}
    assert {row.detail["stopped"] for row in outcome.timings} <= {PRECISE, TIME, MOST}


def test_what_is_surely_below_the_best_does_not_meet_it(cpu_bench):
    slow, same = candidate(f"{SLOW}return self.right(x)"), candidate("return self.right(x)")
    outcome = judge(cpu_bench, slow, timing=True, beat=5.0, incumbent=same)
    assert outcome.verdict is Verdict.PASS and outcome.versus_incumbent is None, outcome
    assert {row.subject.value for row in outcome.timings} == {"candidate", "eager"}
    assert "incumbent" not in outcome.environment["children"]


def test_a_would_be_best_is_measured_twice_beside_the_best_so_far(cpu_bench):
    slow, same = candidate(f"{SLOW}return self.right(x)"), candidate("return self.right(x)")
    outcome = believed(lambda: judge(cpu_bench, same, timing=True, beat=0.01, incumbent=slow))
    assert outcome.verdict is Verdict.PASS and outcome.versus_incumbent is not None, outcome
    assert outcome.versus_incumbent.call is SpeedCall.FASTER and outcome.versus_incumbent.value > 3
    assert {row.subject.value for row in outcome.timings} == {"candidate", "eager", "incumbent"}
    first = finding(outcome, "time.confirmed")
    assert first is not None and first.data["first_speedup"] != outcome.speedup.value


@pytest.mark.parametrize(
    "incumbent",
    ["raise RuntimeError('no such file')", candidate("raise ValueError('not any more')")],
    ids=["at import", "in forward"],
)
def test_a_best_so_far_that_fails_is_left_out_and_blames_nobody(cpu_bench, incumbent):
    same = candidate("return self.right(x)")
    outcome = believed(lambda: judge(cpu_bench, same, timing=True, beat=0.01, incumbent=incumbent))
    assert outcome.verdict is Verdict.PASS and outcome.versus_incumbent is None, outcome
    assert "incumbent" in outcome.environment or finding(outcome, "time.no_incumbent") is not None
