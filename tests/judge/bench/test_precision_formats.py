"""An error that belongs to a coarser format is named by the format; any other error is just wrong."""

from __future__ import annotations

import pytest
import torch

from judge.bench.judging.precision import Allowed, Errors, allowed, coarse_kind, joined, rounded
from judge.values import Policy, Verdict
from tests.judge.bench.test_policy_in_the_bench import CUT, MATMUL
from tests.judge.rounds_bench import answer, ask, codes, problem

UNIFORM = problem("return x[0] @ x[1]", inputs="torch.rand(64, 256), torch.rand(256, 32)")
LAYERS = problem("return F.relu(x[0] @ self.w) @ self.v", init=(
    "self.w = torch.nn.Parameter(torch.randn(64, 96) / 8)\nself.v = torch.nn.Parameter(torch.randn(96, 32) / 8)"
))  # fmt: skip
ROUND = "def h(x, kind):\n    return x.to(kind).float()\n"

COARSE = {
    "tf32 operands": ("return cut(x[0]) @ cut(x[1])", "precision.tf32"),
    "bfloat16 operands": ("return h(x[0], torch.bfloat16) @ h(x[1], torch.bfloat16)", "precision.half"),
    "float16 operands": ("return h(x[0], torch.float16) @ h(x[1], torch.float16)", "precision.half"),
    "bfloat16 throughout": ("return (x[0].bfloat16() @ x[1].bfloat16()).float()", "precision.half"),
    "float16 throughout": ("return (x[0].half() @ x[1].half()).float()", "precision.half"),
    "only stored as bfloat16": ("return h(x[0] @ x[1], torch.bfloat16)", "precision.half"),
    "a factor": ("return (x[0] @ x[1]) * 1.0003", "value.mismatch"),
    "an offset": ("return x[0] @ x[1] + 0.003", "value.mismatch"),
}


@pytest.mark.bench
@pytest.mark.parametrize("source", [MATMUL, UNIFORM], ids=["centred data", "uniform data"])
@pytest.mark.parametrize("name", list(COARSE))
def test_a_coarse_product_is_named_by_its_format(cpu_bench, source, name):
    forward, reason = COARSE[name]
    outcome = ask(cpu_bench, source, CUT.replace("\ndef", "import torch\ndef", 1) + ROUND + answer(source, forward))
    assert outcome.reason == reason, outcome
    if reason.startswith("precision"):
        assert outcome.verdict is Verdict.LOWER_PRECISION and outcome.stage == "precision"
        assert "allowed" in outcome.message and "input_precision='ieee'" in outcome.message


@pytest.mark.bench
@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        ("return F.relu(cut(x[0]) @ cut(self.w)) @ cut(self.v)", "precision.tf32"),
        ("y = F.relu(x[0].bfloat16() @ self.w.bfloat16())\nreturn (y @ self.v.bfloat16()).float()", "precision.half"),
    ],
)
def test_parameters_in_a_coarse_format_are_seen_too(cpu_bench, forward, reason):
    outcome = ask(cpu_bench, LAYERS, "import torch\n" + CUT + answer(LAYERS, forward))
    assert outcome.reason == reason, outcome


@pytest.mark.bench
def test_an_approximate_function_is_wrong_although_it_errs_like_tf32(cpu_bench):
    source = problem("return F.gelu(x[0])")
    outcome = ask(cpu_bench, source, answer(source, "return F.gelu(x[0], approximate='tanh')"))
    assert (outcome.verdict, outcome.reason) == (Verdict.WRONG, "value.mismatch")


@pytest.mark.bench
def test_float32_inside_a_float64_problem_is_lower_precision(cpu_bench):
    policy = Policy(dtype="float64")
    assert ask(cpu_bench, MATMUL, answer(MATMUL), policy=policy).verdict is Verdict.PASS
    other_order = "return sum(x[0][:, i : i + 16] @ x[1][i : i + 16] for i in range(240, -16, -16))"
    assert ask(cpu_bench, MATMUL, answer(MATMUL, other_order), policy=policy).verdict is Verdict.PASS
    single = ask(cpu_bench, MATMUL, answer(MATMUL, "return (x[0].float() @ x[1].float()).double()"), policy=policy)
    assert (single.verdict, single.reason) == (Verdict.LOWER_PRECISION, "precision.single")


@pytest.mark.bench
def test_a_turned_switch_is_named_with_the_precision_it_changed(cpu_bench):
    forward = "torch.backends.cuda.matmul.allow_tf32 = True\nreturn cut(x[0]) @ cut(x[1])"
    outcome = ask(cpu_bench, MATMUL, "import torch\n" + CUT + answer(MATMUL, forward))
    assert outcome.reason == "precision.tf32" and "allow_tf32" in outcome.message
    assert "state.flags" in codes(outcome)


@pytest.mark.bench
def test_16_bit_problems_have_no_coarser_format_and_other_orders_pass(cpu_bench):
    policy = Policy(dtype="bfloat16")
    blocks = (
        "a, b = x[0].float(), x[1].float()\nreturn sum(a[:, i:i+64] @ b[i:i+64] for i in (0, 64, 128, 192)).bfloat16()"
    )
    assert ask(cpu_bench, MATMUL, answer(MATMUL, blocks), policy=policy).verdict is Verdict.PASS
    coarse = "return (x[0] @ x[1]).to(torch.float8_e4m3fn).bfloat16()"
    assert ask(cpu_bench, MATMUL, answer(MATMUL, coarse), policy=policy).verdict is Verdict.WRONG


def test_a_round_trip_keeps_what_fits_and_the_dtype():
    value = torch.tensor([1 + 2**-10, 1 + 2**-11, 3.0])
    assert rounded(value, "tf32").tolist() == [1 + 2**-10, 1.0, 3.0]
    assert rounded(torch.tensor([1 + 2**-10 + 2**-11 + 2**-12]), "tf32 cut").tolist() == [1 + 2**-10]
    assert rounded(value, "bfloat16").tolist() == [1.0, 1.0, 3.0] and rounded(value, "bfloat16").dtype is torch.float32
    assert rounded({"a": (value, 2)}, "float16")["a"][1] == 2
    wide = torch.tensor([1 + 2**-40], dtype=torch.float64)
    assert rounded(wide, "float32").tolist() == [1.0] and rounded(wide, "tf32") is wide
    pair = torch.complex(value, value)
    assert torch.equal(rounded(pair, "tf32").real, rounded(value, "tf32"))
    assert [coarse_kind(t) for t in (torch.float32, torch.float64, torch.bfloat16)] == ["tf32", "float32", None]


def test_content_that_fits_the_coarse_format_does_not_narrow_what_is_allowed():
    exact = Errors(1e-8, 1e-8)
    assert allowed(exact, Errors(0.0, 0.0), torch.float32, 1).rms == allowed(exact, None, torch.float32, 1).rms
    assert allowed(exact, Errors(1e-5, 1e-5), torch.float32, 4096).rms == pytest.approx(2.5e-6)


def test_a_permitted_format_widens_what_is_allowed():
    wide = joined(Errors(1e-7, 1e-6), Errors(1e-3, 4e-3))
    assert wide == Errors(1e-3, 4e-3) and joined(wide, None) is wide
    assert allowed(wide, None, torch.float32, 64).rms == pytest.approx(4e-3)


def test_what_is_allowed_accepts_equal_integers_and_close_numbers_only():
    limit = Allowed(1e-3, 1e-2)
    exact = torch.linspace(-1, 1, 100)
    assert limit.accepts(exact + 1e-4, exact) and not limit.accepts(exact + 1e-2, exact)
    assert limit.accepts(exact + 2e-3, exact, gain=4.0)
    assert limit.accepts(torch.arange(3), torch.arange(3)) and not limit.accepts(torch.arange(3), torch.arange(3) + 1)
