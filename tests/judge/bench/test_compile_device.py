"""A device that compiles and runs nothing: what every kernel needs, and what stands in the way, without a GPU."""

from __future__ import annotations

import pytest

from judge.bench.compiling.tuning_choices import write_choices
from judge.bench.processes.artefacts import artefact_key, kept_texts
from judge.bench.runner import Bench
from judge.values import Job, Limits, Outcome, ProblemSpec, Verdict
from tests.judge.bench_problems import PROBLEM, SAME, TRITON, candidate

pytestmark = pytest.mark.bench

LARGE = PROBLEM.replace("SIZE = 64", "SIZE = 2048").replace("torch.randn(16, SIZE)", "torch.randn(1 << 22, SIZE)")
CONFIGS = "[triton.Config({}, num_warps=w) for w in (1, 2, 4)]"
TUNED = TRITON.replace("@triton.jit", f"@triton.autotune({CONFIGS}, key=['n'])\n@triton.jit")


@pytest.fixture
def bench(compile_bench):
    return compile_bench


def compiled(bench: Bench, source: str, problem: str = PROBLEM) -> Outcome:
    return bench.evaluate(Job("compile", ProblemSpec(problem), source, limits=Limits(wall_s=300, stage_s=200)))


def test_a_kernel_that_compiles_tells_what_it_needs(bench):
    outcome = compiled(bench, TRITON)
    assert outcome.verdict is Verdict.COMPILED_ONLY and outcome.loads
    [row] = outcome.kernels
    assert row["name"] == "norm_gelu" and row["grid"] == [16, 1, 1] and 0 < row["regs"] <= 255
    assert row["error"] is None and row["spills"] == 0 and row["shared_bytes"] >= 0
    assert outcome.speedup is None and outcome.timings == ()
    assert [stage.name for stage in outcome.stages] == ["parse", "compile"]


def test_thirty_gigabytes_of_input_cost_nothing(bench):
    """Making them on the processor would take more than the time limit, and on most machines more than its memory."""
    outcome = compiled(bench, TRITON, LARGE)
    assert outcome.verdict is Verdict.COMPILED_ONLY
    assert outcome.kernels[0]["grid"] == [1 << 22, 1, 1]


def test_the_same_candidate_is_known_the_second_time(bench):
    first = compiled(bench, TRITON + "\nAGAIN = 1\n")
    again = compiled(bench, TRITON + "\nAGAIN = 1  # a comment is not part of it\n")
    assert again.kernels == first.kernels
    assert "known from before" in again.stages[-1].detail and "known" not in first.stages[-1].detail


def test_an_error_has_line_and_caret_and_none_of_our_names(bench):
    outcome = compiled(bench, TRITON.replace("tl.sum(v, 0) / n", "tl.no_such_function(v)"))
    assert (outcome.verdict, outcome.reason) == (Verdict.COMPILE_FAILED, "compile.error")
    first, line, caret = outcome.message.split("\n")
    assert first.startswith("candidate.py:10:") and "no_such_function" in line
    assert caret.index("^") == line.index("tl.no_such_function") and "judge" not in outcome.message


def test_too_much_shared_memory_says_needed_and_available(bench):
    source = TRITON.replace("BLOCK=triton.next_power_of_2(n)", "BLOCK=1024, num_warps=64")
    outcome = compiled(bench, source)
    assert (outcome.verdict, outcome.reason) == (Verdict.COMPILE_FAILED, "compile.resources")
    assert "needs 2048, available 1024" in outcome.message


def test_every_configuration_of_an_autotuner_is_compiled(bench):
    outcome = compiled(bench, TUNED)
    assert outcome.verdict is Verdict.COMPILED_ONLY and not outcome.findings
    assert outcome.kernels[0]["config"].startswith("num_warps: 1")


def test_a_list_that_is_too_long_is_a_finding_with_counts(bench):
    many = TRITON.replace(
        "@triton.jit", "@triton.autotune([triton.Config({}, num_warps=1)] * 70, key=['n'])\n@triton.jit"
    )
    [finding] = compiled(bench, many).findings
    assert finding.code == "compile.capped"
    assert (finding.data["total"], finding.data["over_limit"]) == (70, 6)


def test_python_that_depends_on_what_a_kernel_computes_is_unsupported_here(bench):
    source = TRITON.replace("        return y", "        return y if float(y.sum()) > 0 else [y][int(y[0, 0]) + 7]")
    outcome = compiled(bench, source)
    assert (outcome.verdict, outcome.reason) == (Verdict.UNSUPPORTED, "compile.incomplete")


def test_code_without_kernels_compiles_to_nothing(bench):
    outcome = compiled(bench, SAME)
    assert outcome.verdict is Verdict.COMPILED_ONLY and outcome.kernels == ()
    assert outcome.stages[-1].detail == "no kernel is launched"


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        ("def broken(:", Verdict.BAD_SOURCE),
        ("import no_such_module\n" + SAME, Verdict.LOAD_FAILED),
        (candidate("return x", init="1 / 0"), Verdict.LOAD_FAILED),
        (candidate("os._exit(0)"), Verdict.CRASHED),
        (candidate("raise KeyError('x')"), Verdict.CRASHED),
    ],
)
def test_other_endings_have_their_own_verdicts(bench, source, verdict):
    outcome = compiled(bench, source)
    assert outcome.verdict is verdict and outcome.message


def test_a_problem_that_cannot_be_constructed_is_not_the_candidates_fault(bench):
    outcome = compiled(bench, TRITON, PROBLEM.replace("return [SIZE]", "raise ValueError('no')"))
    assert outcome.verdict is Verdict.REFUSED_PROBLEM


PRODUCT = """
import torch

class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b

def get_inputs():
    return [torch.randn(32, 1024), torch.randn(1024, 32)]

def get_init_inputs():
    return []
"""
STAGED = """
import torch, triton, triton.language as tl

@triton.jit
def product(a, b, c, K: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr):
    i, j = tl.arange(0, BM), tl.arange(0, BK)
    acc = tl.zeros((BM, BM), tl.float32)
    for k in range(0, K, BK):
        x = tl.load(a + i[:, None] * K + k + j[None, :])
        y = tl.load(b + (k + j)[:, None] * BM + i[None, :])
        acc += tl.dot(x, y)
    tl.store(c + i[:, None] * BM + i[None, :], acc)

class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        c = torch.empty(32, 32, device=a.device)
        product[(1,)](a, b, c, K=1024, BM=32, BK=128, num_stages=6)
        return c
"""


def test_what_fits_one_target_may_be_too_large_for_another(bench):
    with Bench("compile:sm_86") as small:
        outcome = compiled(small, STAGED, PRODUCT)
    assert outcome.environment["toolchain"].endswith("sm_86")
    assert outcome.reason == "compile.resources" and "available 101376 bytes" in outcome.message
    assert compiled(bench, STAGED, PRODUCT).verdict is Verdict.COMPILED_ONLY


def test_unknown_targets_are_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="sm_80, sm_86"):
        Bench("compile:sm_75")


def test_artefacts_are_found_by_another_bench(bench, artefacts):
    source = TRITON + "\nLASTS = 1\n"
    with Bench("compile:sm_90", artefacts=artefacts) as other:
        for one, known in ((bench, False), (other, True)):
            assert ("known from before" in compiled(one, source).stages[-1].detail) is known
    assert list(artefacts.rglob("norm_gelu.cubin"))
    toolchain, key = str(bench.facts()["toolchain"]), artefact_key(source, ProblemSpec(PROBLEM).hash, None)
    ((name, text),) = kept_texts(artefacts, toolchain, key, ".ptx")
    assert name == "norm_gelu.ptx" and ".target sm_90" in text  # for people to read


def test_choices_of_configurations_go_to_the_next_child_of_the_same_candidate(bench, tmp_path):
    compiled(bench, TUNED)
    spec, stage = ProblemSpec(PROBLEM), bench.compiling
    folders = [tmp_path / name for name in ("first", "second", "stranger")]
    for folder in folders:
        folder.mkdir()
    first = stage.hand_over(TUNED, spec, folders[0])
    assert first is not None and first.given and not first.payload["choices"]
    assert first.payload["tuned"][0]["kernel"] == "norm_gelu" and len(first.payload["tuned"][0]["compiled"]) == 3
    row = {"kernel": "norm_gelu", "key": first.payload["tuned"][0]["key"], "config": "num_warps: 2"}
    write_choices(folders[0], [row])
    stage.learn(first)
    write_choices(folders[0], [{**row, "config": "num_warps: 4"}, {**row, "key": "another"}])
    stage.learn(first)
    second = stage.hand_over(TUNED, spec, folders[1])
    assert second is not None and second.payload["choices"] == [row, {**row, "key": "another"}]
    stranger = stage.hand_over(TRITON, spec, folders[2])
    assert stranger is not None and stranger.payload["choices"] == []
