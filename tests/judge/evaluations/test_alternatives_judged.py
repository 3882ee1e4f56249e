"""Baselines other than eager in whole evaluations: timed once beside a new best, then known, left out when wrong."""

from __future__ import annotations

import math

import pytest

from judge.bench.device.statistics import timing_of
from judge.values import Job, Outcome, ProblemSpec, Subject, Verdict
from tests.judge.bench_problems import believed
from tests.judge.rounds_bench import LIMITS, answer, problem

pytestmark = [pytest.mark.bench, pytest.mark.slow, pytest.mark.quiet]
CONV = problem("return self.c(x[0])", inputs="torch.randn(2, 8, 16, 16)", init="self.c = torch.nn.Conv2d(8, 8, 3)")
FICKLE = CONV.replace("self.c(x[0])", "self.c(x[0]) * (1 if self.c.weight.is_contiguous() else 2)")
ATTENTION = problem(
    "return torch.softmax(x[0] @ x[1].transpose(-2, -1) / 4.0, dim=-1) @ x[2]",
    inputs="*(torch.randn(2, 2, 32, 16) for _ in range(3))",
)

TIMED = (timing_of(Subject.CANDIDATE, [1.0], "wall_clock"),)


@pytest.fixture
def judged(cpu_bench, monkeypatch):
    """An evaluation of the reference itself by a bench that times other baselines, all but torch.compile."""
    monkeypatch.setattr(cpu_bench, "alternatives", True)

    def evaluate(source: str, number: int, beat: float | None = None) -> Outcome:
        spec = ProblemSpec(source)
        job = Job(f"job {number}", spec, answer(source) + f"# {number}\n", limits=LIMITS, beat=beat)
        tried = {"baselines": {"compile": "left out: slow"}}
        given = {"loads": True, "environment": tried, "timings": TIMED}
        cpu_bench.times.remember(job, Outcome(Verdict.PASS, stage="timing", **given))
        return believed(lambda: cpu_bench.evaluate(job))

    return evaluate


def test_what_applies_is_timed_once_and_shown_with_every_pass_from_then_on(judged):
    first = judged(CONV, 1)
    notes = first.environment["baselines"]
    assert notes["channels_last"] == "measured" and "channels_last" in first.over_others
    assert notes["shipped"] == "left out: only on a GPU" and notes["sdpa"].startswith("left out: the reference has no")
    assert [stage.name for stage in first.stages][-1] == "channels_last"
    assert first.environment["numerics"]["precision"] == "strict"
    later = judged(CONV, 2, beat=math.inf)
    assert later.environment["baselines"]["channels_last"] == "known from before"
    assert later.over_others["channels_last"].over is Subject.CHANNELS_LAST


def test_a_baseline_with_other_outputs_is_left_out_and_costs_no_best(judged):
    outcome = judged(FICKLE, 1)
    assert outcome.verdict is Verdict.PASS and outcome.over_others == {}
    assert "off by more than its numerics allow" in outcome.environment["baselines"]["channels_last"]


def test_attention_written_out_is_timed_as_torchs_own(judged):
    outcome = judged(ATTENTION, 1)
    assert outcome.environment["baselines"]["sdpa"] == "measured", outcome.environment["baselines"]
