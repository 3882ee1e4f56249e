"""Every way a candidate can end has its own verdict, stage and reason."""

from __future__ import annotations

import math

import pytest

from judge.values import Verdict
from tests.judge.bench_problems import PROBLEM, SAME, TRITON, candidate, judge

pytestmark = pytest.mark.bench

ENDINGS = {
    "the reference itself": ("return self.right(x)", Verdict.PASS, ""),
    "zeros": ("return torch.zeros_like(x)", Verdict.WRONG, "value.mismatch"),
    "a small error": ("return self.right(x) * 1.001", Verdict.WRONG, "value.mismatch"),
    "an exception": ("raise ValueError('no such tile')", Verdict.CRASHED, "run.exception"),
    "a list for a tensor": ("return [self.right(x)]", Verdict.WRONG_STRUCTURE, "structure.nesting"),
    "another shape": ("return self.right(x).T", Verdict.WRONG_STRUCTURE, "structure.shape"),
    "another dtype": ("return self.right(x).double()", Verdict.WRONG_STRUCTURE, "structure.dtype"),
    "no tensor at all": ("return object()", Verdict.WRONG_STRUCTURE, "structure.type"),
    "a NaN": ("y = self.right(x); y[0, 0] = float('nan'); return y", Verdict.NOT_FINITE, "value.nonfinite"),
    "its input changed": ("y = self.right(x); x.zero_(); return y", Verdict.STATE_VIOLATION, "state.input_changed"),
    "its input returned": ("x.copy_(self.right(x)); return x", Verdict.STATE_VIOLATION, "state.input_changed"),
    "half written": (
        "y = torch.empty_like(x); y[:8] = self.right(x)[:8]; return y if x.sum() != 0 else x",
        Verdict.WRONG,
        None,
    ),
    "a tensor subclass": (
        "return torch.Tensor._make_subclass(type('T', (torch.Tensor,), {}), self.right(x))",
        Verdict.WRONG_STRUCTURE,
        "structure.type",
    ),
    "too much memory": ("return torch.empty(1 << 36)", Verdict.OUT_OF_MEMORY, "run.oom"),
}


@pytest.mark.parametrize("name", list(ENDINGS))
def test_an_ending_has_its_verdict(cpu_bench, name):
    forward, verdict, reason = ENDINGS[name]
    outcome = judge(cpu_bench, candidate(forward))
    assert outcome.verdict is verdict, outcome
    assert reason is None or outcome.reason == reason
    assert outcome.loads


def test_memory_never_written_is_told_as_such(cpu_bench):
    source = candidate("y = torch.empty(16, 64); y[:15] = self.right(x)[:15]; return y")
    outcome = judge(cpu_bench, source)
    assert (outcome.verdict, outcome.reason) in {
        (Verdict.WRONG, "value.partial"),
        (Verdict.WRONG, "value.mismatch"),  # whatever lay there in an earlier round was already wrong
        (Verdict.NOT_FINITE, "value.nonfinite"),
    }


def test_an_exception_shows_only_the_candidates_own_frames(cpu_bench):
    outcome = judge(cpu_bench, candidate("raise ValueError('no such tile')"))
    assert 'File "candidate.py", line' in outcome.message
    assert "subject.py" not in outcome.message
    assert "/tmp/" not in outcome.message


@pytest.mark.parametrize(
    ("source", "verdict", "reason", "words"),
    [
        ("import torch\nclass Model: pass\n", Verdict.BAD_SOURCE, "source.no_model", "ModelNew"),
        ("class ModelNew(:\n", Verdict.BAD_SOURCE, "source.syntax", "line 1"),
        ("import nothing_like_it\nclass ModelNew: pass\n", Verdict.LOAD_FAILED, "load.import", "nothing_like_it"),
        (SAME.replace("(self, size)", "(self)"), Verdict.LOAD_FAILED, "load.construct", "argument"),
        (
            SAME.replace("LayerNorm(size)", "LayerNorm(size + 1)"),
            Verdict.LOAD_FAILED,
            "load.params",
            "norm.weight [65]",
        ),
    ],
)
def test_a_candidate_that_does_not_load_says_why(cpu_bench, source, verdict, reason, words):
    outcome = judge(cpu_bench, source)
    assert (outcome.verdict, outcome.reason) == (verdict, reason)
    assert words in outcome.message
    assert not outcome.loads


def test_renamed_parameters_go_by_position(cpu_bench):
    assert judge(cpu_bench, SAME.replace("self.norm", "self.other")).verdict is Verdict.PASS


def test_the_hook_takes_a_state_that_fits_neither_way(cpu_bench):
    source = candidate(
        "return torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (64,), *self.packed))",
        init="del self.norm\nself.packed = None",
    ).replace(
        "    def right(",
        "    def load_reference_state(self, state):\n"
        "        self.packed = torch.stack([state['norm.weight'], state['norm.bias']])\n\n    def right(",
    )
    assert judge(cpu_bench, source).verdict is Verdict.PASS


def test_weights_folded_at_construction_are_stale_after_a_change(cpu_bench):
    folded = candidate(
        "if self.kept is None: self.kept = (self.norm.weight.clone(), self.norm.bias.clone())\n"
        "return torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (64,), *self.kept))",
        init="self.kept = None",
    )
    outcome = judge(cpu_bench, folded)
    assert (outcome.verdict, outcome.reason) == (Verdict.STATE_VIOLATION, "state.stale_params")


def test_prepare_may_fold_weights_because_it_runs_after_every_change(cpu_bench):
    source = candidate("return torch.nn.functional.gelu(torch.nn.functional.layer_norm(x, (64,), *self.kept))").replace(
        "    def right(",
        "    def prepare(self):\n        self.kept = (self.norm.weight.clone(), self.norm.bias.clone())\n\n"
        "    def right(",
    )
    assert judge(cpu_bench, source).verdict is Verdict.PASS


def test_a_cached_answer_meets_fresh_content(cpu_bench):
    source = candidate(
        "if self.kept is None: self.kept = self.right(x)\nreturn self.kept.clone()", init="self.kept = None"
    )
    assert judge(cpu_bench, source).verdict is Verdict.WRONG


MATMUL = """
import torch
class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b
def get_inputs():
    return [torch.randn(64, 256), torch.randn(256, 32)]
def get_init_inputs():
    return []
"""


def test_tf32_under_an_fp32_label_is_lower_precision(cpu_bench):
    source = """
import torch
def cut(x):
    b = x.contiguous().view(torch.int32)
    return ((b + 0x0FFF + ((b >> 13) & 1)) & ~0x1FFF).view(torch.float32)
class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        return cut(a) @ cut(b)
"""
    outcome = judge(cpu_bench, source, problem=MATMUL)
    assert (outcome.verdict, outcome.reason) == (Verdict.LOWER_PRECISION, "precision.tf32")
    assert "input_precision='ieee'" in outcome.message


def test_another_summation_order_is_right(cpu_bench):
    source = MATMUL.replace("class Model(", "class ModelNew(").replace(
        "return a @ b", "return sum(a[:, i : i + 16] @ b[i : i + 16] for i in range(240, -16, -16))"
    )
    assert judge(cpu_bench, source, problem=MATMUL).verdict is Verdict.PASS


def test_dropout_passes_on_equal_random_state(cpu_bench):
    problem = PROBLEM.replace(
        "return torch.nn.functional.gelu(self.norm(x))", "return torch.dropout(self.norm(x), 0.3, True)"
    )
    source = problem.replace("class Model(", "class ModelNew(")
    assert judge(cpu_bench, source, problem=problem).verdict is Verdict.PASS


def test_a_reference_that_works_in_place_may_be_matched_in_place(cpu_bench):
    problem = PROBLEM.replace("return torch.nn.functional.gelu(self.norm(x))", "return x.mul_(2.0)")
    assert judge(cpu_bench, problem.replace("class Model(", "class ModelNew("), problem=problem).verdict is Verdict.PASS


def test_nested_outputs_with_integers_match_exactly(cpu_bench):
    problem = PROBLEM.replace(
        "return torch.nn.functional.gelu(self.norm(x))", "return {'top': torch.topk(self.norm(x), 3), 'n': 3}"
    )
    right = problem.replace("class Model(", "class ModelNew(")
    assert judge(cpu_bench, right, problem=problem).verdict is Verdict.PASS
    assert judge(cpu_bench, right.replace("'n': 3", "'n': 4"), problem=problem).reason == "structure.nesting"


def test_a_problem_that_raises_is_the_problems_fault(cpu_bench):
    problem = PROBLEM.replace("return torch.nn", "raise OSError('gone')\n        return torch.nn")
    outcome = judge(cpu_bench, SAME, problem=problem)
    assert (outcome.verdict, outcome.reason) == (Verdict.REFUSED_PROBLEM, "problem.raises")
    assert "gone" in outcome.message


def test_a_triton_kernel_passes_in_the_interpreter_with_a_modelled_speedup(interpreter_bench):
    outcome = judge(interpreter_bench, TRITON, timing=True)
    assert outcome.verdict is Verdict.PASS, outcome
    assert outcome.speedup is not None and outcome.speedup.basis == "modelled"
    assert {timing.subject for timing in outcome.timings} == {"candidate", "eager"}
    assert outcome.kernels[0]["name"] == "norm_gelu" and outcome.kernels[0]["regs"] > 0


def test_the_same_candidate_gets_the_same_modelled_number(interpreter_bench):
    first, second = (judge(interpreter_bench, TRITON, timing=True).speedup for _ in range(2))
    assert first == second


def test_what_the_interpreter_accepts_and_the_compiler_refuses_does_not_pass(interpreter_bench):
    source = TRITON.replace(
        "    mean = ", "    for i in range(4):\n        if row > i:\n            break\n    mean = "
    )
    outcome = judge(interpreter_bench, source)
    assert outcome.verdict is Verdict.COMPILE_FAILED, outcome
    assert outcome.loads


def test_a_pointer_out_of_bounds_is_named_and_harms_nobody(interpreter_bench):
    outcome = judge(
        interpreter_bench,
        TRITON.replace("tl.load(x + row * n + at, mask=mask", "tl.load(x + row * n + at + 99999, mask=mask"),
    )
    assert (outcome.verdict, outcome.reason) == (Verdict.CRASHED, "run.out_of_bounds")


OWN_TERMS = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return {answer}
def get_inputs():
    return [torch.rand(16, 64)]
def get_init_inputs():
    return []
"""


def test_content_that_the_reference_refuses_is_left_out_and_said_so(cpu_bench):
    problem = OWN_TERMS.format(answer="torch.nn.functional.binary_cross_entropy(x, x, reduction='none')")
    outcome = judge(cpu_bench, problem.replace("class Model(", "class ModelNew("), problem=problem)
    assert outcome.verdict is Verdict.PASS
    told = {case.family: case.detail for case in outcome.cases}
    assert told["given"] == "" and "the reference raised RuntimeError" in told["centred"]


def test_a_complex_output_is_timed_within_its_allowed_error(cpu_bench):
    problem = OWN_TERMS.format(answer="torch.fft.fft(x)")
    source = problem.replace("class Model(", "class ModelNew(").replace("fft(x)", "fft(x) * (1 + 1e-7)")
    assert judge(cpu_bench, source, problem=problem, timing=True, beat=math.inf).verdict is Verdict.PASS


def test_a_source_that_grows_threefold_on_the_wire_is_judged(cpu_bench):
    outcome = judge(cpu_bench, f'import torch\nTEXT = "{"é" * 500_000}"\n{SAME}')
    assert outcome.verdict is Verdict.PASS
