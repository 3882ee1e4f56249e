"""The preflight keeps the policy, waits its turn for a GPU, and says what shapes tell even when it refuses."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
import torch

from judge.bench.admission.degeneracy import varied
from judge.bench.admission.every_question import questions
from judge.bench.admission.worth import NullCandidates
from judge.bench.foreign.loading import load_problem
from judge.bench.processes.jobs import AdmissionPlan
from judge.bench.runner import Bench
from judge.values import DEFAULT_POLICY, Limits, Mode, Policy, ProblemSpec
from tests.judge.bench.test_gpu_lock import finish, hear, say, start
from tests.judge.bench_problems import PROBLEM
from tests.judge.problem_texts import HEAD, TAIL, examine, module

LINEAR = "self.linear = nn.Linear(32, 8)"


def test_inputs_and_parameters_have_the_policy_s_type(tmp_path: Path) -> None:
    source = module("return torch.relu(self.linear(x))", LINEAR)
    report = examine(source, tmp_path, policy=Policy(dtype="bfloat16"))
    assert (report.state, report.inputs[0]["dtype"], report.outputs[0]["dtype"]) == ("admitted", "bfloat16", "bfloat16")
    assert report.compulsory_bytes == 2 * (16 * 32 + 32 * 8 + 8 + 16 * 8)
    assert report.roofline is not None and report.roofline.kind in {"bf16", "fp32"}


def test_inputs_are_varied_within_their_mean_and_spread() -> None:
    given = [3 + 0.5 * torch.randn(4000), torch.arange(7, 9).repeat(2000), torch.empty(0)]
    floats, whole, empty = varied(given, 5)
    assert float(floats.mean()) == pytest.approx(3, abs=0.05) and float(floats.std()) == pytest.approx(0.5, abs=0.05)
    assert not torch.equal(floats, given[0]) and torch.equal(floats, varied(given, 5)[0])
    assert set(whole.tolist()) == {7, 8} and not torch.equal(whole, given[1]) and empty is given[2]
    kept = varied(given, 5, only=1)
    assert kept[0] is given[0] and not torch.equal(kept[1], given[1])


def test_the_mode_is_the_policy_s(tmp_path: Path) -> None:
    source = module("return self.drop(x) * 2", "self.drop = nn.Dropout(0.5)")
    warned = {stage.name for stage in examine(source, tmp_path).stages if stage.state == "warned"}
    assert warned == {"deterministic"}
    report = examine(source, tmp_path / "..", policy=Policy(mode=Mode.EVAL))
    assert {stage.name: stage.state for stage in report.stages}["deterministic"] == "ok"


def test_what_shapes_tell_stands_in_a_report_that_refuses_for_size(tmp_path: Path) -> None:
    forward = "y = (x @ x.T).sum(1, keepdim=True)\nreturn torch.logsumexp(y, 1)"
    tail = TAIL.replace("SIZE, 32", "SIZE, 4096")
    report = examine(module(forward, tail=tail, head=HEAD.replace("16", "4096")), tmp_path)
    assert (report.state, report.reason) == ("refused", "problem.too_big_for_interpreter")
    assert [flaw.code for flaw in report.flaws] == ["problem.dead_ops", "problem.collapses"]


def passing(source: str, folder: Path) -> tuple[int, list[str]]:
    """(questions asked, null candidates that are right so far) over every round."""
    candidates = NullCandidates()
    for question in questions(load_problem(source, None, folder), "cpu", DEFAULT_POLICY, few=False):
        candidates.meet(question.inputs, question.expected)
    return candidates.questions, candidates.passing


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ("return x * 0", ["one constant", "the mean of earlier answers", "what the first call returned", "zeros"]),
        ("return x + 0.0", ["its input 0 unchanged"]),
        ("return x * 1e-7", []),
        ("return x + 1e-3 * torch.tanh(x)", []),
        ("return torch.softmax(x, 1)", []),
        ("return (x > 0).float()", []),
    ],
)
def test_null_candidates_are_told_by_the_error_that_a_candidate_may_make(
    forward: str, expected: list[str], tmp_path: Path
) -> None:
    asked, right = passing(module(forward), tmp_path)
    assert asked >= 5 and right == expected


def test_nobody_who_leaves_the_inputs_alone_is_right_where_the_reference_writes_to_them(tmp_path: Path) -> None:
    assert passing(module("x.mul_(2)\nreturn torch.zeros(4)"), tmp_path)[1] == []


@pytest.mark.bench
@pytest.mark.quiet
def test_a_preflight_waits_for_whoever_measures_and_its_time_does_not_count(
    cpu_bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "gpu.lock"
    path.touch()
    monkeypatch.setattr(cpu_bench, "gpu_lock", lambda: os.open(path, os.O_RDWR))
    monkeypatch.setattr(AdmissionPlan, "grace_s", 0.0)
    cpu_bench.server("plain").wait_ready()
    other = start(path)
    assert hear(other) == "shared"
    say(other, "alone")
    assert hear(other) == "alone"
    release = threading.Timer(4.5, other.kill)
    release.start()
    report = cpu_bench.admit(ProblemSpec(PROBLEM), limits=Limits(wall_s=4, stage_s=4))
    assert release.finished.is_set(), "it did not wait"
    assert report.state == "admitted"
    release.join()
    finish(other)


@pytest.mark.bench
def test_the_bench_hands_the_policy_over(cpu_bench: Bench) -> None:
    report = cpu_bench.admit(ProblemSpec(PROBLEM, policy=Policy(dtype="float64")))
    assert report.inputs == ({"shape": [16, 64], "dtype": "float64"},)
    assert report.environment["torch"] == torch.__version__


def test_a_look_that_takes_more_memory_is_left_out_and_what_cannot_be_judged_is_refused(tmp_path: Path) -> None:
    other = "type(x) is torch.Tensor and not torch.equal(x, FIRST[0] if FIRST else FIRST.append(x.clone()) or x)"
    message = "CUDA out of memory. Tried to allocate 6.00 GiB. GPU 0 has a total capacity of 79.18 GiB."
    forward = f"if {other}:\n    raise torch.OutOfMemoryError({message!r})\nreturn torch.softmax(x, 1)"
    report = examine(module(forward, head=f"{HEAD}\nFIRST = []"), tmp_path)
    stages = {stage.name: stage for stage in report.stages}
    assert stages["worth"].state == "warned" and "Not examined" in stages["worth"].detail
    assert (report.state, report.reason, stages["null"].state) == ("refused", "problem.memory", "failed")
    assert "It asked for 6.00 GiB more" in report.message
