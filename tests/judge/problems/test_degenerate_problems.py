"""Problems that a kernel can win without doing the work: flagged with the code that says why; real ones are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from judge.problems.admission import TOO_BIG, settled_state
from judge.problems.services import SAMPLES
from judge.sources.checks import case_for, declared_cases
from tests.judge.problem_texts import TAIL, examine, inputs, module

IMAGES = inputs("2, 3, 10, 10")
VOLUMES = inputs("2, 3, 6, 6, 6")
LINEAR = "self.linear = nn.Linear(32, 8)"
CONV = "self.conv = nn.Conv2d(3, 4, 3)"
HOSTILE = {"ends_elsewhere", "floods_runner", "forges_verdict", "starts_processes"}  # only in a sandbox
PROBLEMS = sorted((SAMPLES.parent / "selftest" / "problems").glob("*.py"))
CORPUS = [path for path in PROBLEMS if path.stem not in HOSTILE]
DEGENERATE_ON_PURPOSE = {"constant_output": "problem.constant"}

# name -> (forward, constructor, reason, tail)
DEGENERATE = {
    "softmax of one": ("return torch.softmax(x.sum(1, keepdim=True), dim=1)", "", "problem.constant", TAIL),
    "times zero": ("return x * 0", "", "problem.constant", TAIL),
    "mean of a norm": ("return self.norm(x).mean(1)", "self.norm = nn.LayerNorm(32)", "problem.near_zero", TAIL),
    "sum of what was centred": ("return (x - x.mean(1, keepdim=True)).sum(1)", "", "problem.near_zero", TAIL),
    "sum of a softmax": ("return torch.softmax(self.linear(x), 1).sum(1)", LINEAR, "problem.constant", TAIL),
    "weights alone": ("return self.linear.weight * 2", LINEAR, "problem.input_insensitive", TAIL),
    "an identity": ("return x + 0.0", "", "problem.identity", TAIL),
    "cancelled digits": ("return (x + 1e7) - 1e7 + x * 1e-9", "", "problem.ill_conditioned", TAIL),
    "dead layer": (
        "return x * torch.softmax(self.linear(x), 1).sum() * 2", LINEAR, "problem.param_insensitive", TAIL,
    ),
    "centred twice": (
        "y = self.norm(x)\nreturn y - y.mean(1, keepdim=True)",
        "self.norm = nn.LayerNorm(32, elementwise_affine=False)", "problem.dead_ops", TAIL,
    ),
    "dead branch": (
        "return torch.relu(self.linear(x)) + torch.softmax(x, 1).sum(1, keepdim=True)",
        LINEAR, "problem.dead_ops", TAIL,
    ),
    "max of one, then residual": (
        "y = self.linear(x).max(1, keepdim=True).values\nreturn x * torch.logsumexp(y, 1, keepdim=True)",
        LINEAR, "problem.dead_ops", TAIL,
    ),
    "least of itself": ("y = self.linear(x).tanh()\nreturn torch.min(y, y)", LINEAR, "problem.dead_ops", TAIL),
    "pooled twice": (
        "return F.avg_pool2d(F.adaptive_avg_pool2d(self.conv(x).tanh(), 1), 1)",
        CONV, "problem.dead_ops", IMAGES,
    ),
    # KernelBench level 2, by number
    "80": (
        "x = self.linear(x)\nx = torch.max(x, dim=1, keepdim=True).values\n"
        "x = x - x.mean(dim=1, keepdim=True)\nreturn F.gelu(x)",
        LINEAR, "problem.constant", TAIL,
    ),
    "66": (
        "x = self.linear(x)\nx = torch.mean(x, dim=1, keepdim=True)\nreturn torch.softmax(x, dim=1)",
        LINEAR, "problem.constant", TAIL,
    ),
    "13": (
        "x = self.conv(x).mean(dim=1, keepdim=True)\n"
        "x = torch.softmax(x + self.bias, dim=1)\nreturn torch.tanh(x) * 2.0",
        "self.conv = nn.ConvTranspose3d(3, 4, 3)\nself.bias = nn.Parameter(torch.randn(1, 1, 1, 1, 1))",
        "problem.constant", VOLUMES,
    ),
    "23": (
        "return self.norm(self.conv(x)).mean(dim=[1, 2, 3, 4])",
        "self.conv = nn.Conv3d(3, 4, 3)\nself.norm = nn.GroupNorm(2, 4)", "problem.near_zero", VOLUMES,
    ),
    "83": (
        "x = self.norm(self.conv(x))\nx = torch.min(x, torch.tensor(0.0))\nreturn torch.clamp(x, min=0.0, max=1.0)",
        "self.conv = nn.Conv3d(3, 4, 3)\nself.norm = nn.GroupNorm(2, 4)", "problem.constant", VOLUMES,
    ),
    "51": (
        "y = self.linear(x) - self.shift\ny = torch.mean(y, dim=1, keepdim=True)\n"
        "y = F.gelu(torch.logsumexp(y, dim=1, keepdim=True))\nreturn y + x",
        f"{LINEAR}\nself.shift = nn.Parameter(torch.randn(8))", "problem.dead_ops", TAIL,
    ),
    "14": (
        "return torch.sum(torch.matmul(x, self.weight.T) / 2, dim=1, keepdim=True) * 1.5",
        "self.weight = nn.Parameter(torch.randn(64, 32))", "problem.collapses", TAIL,
    ),
    "a shift that softmax takes away": ("return torch.softmax(x + x.sin().mean(), 1)", "", "problem.dead_ops", TAIL),
}  # fmt: skip

HONEST = {
    "stable softmax": ("e = torch.exp(x - x.amax(1, keepdim=True))\nreturn e / e.sum(1, keepdim=True)", "", TAIL),
    "softmax": ("return F.softmax(x, dim=-1)", "", TAIL),
    "rms norm": ("return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)", "", TAIL),
    "log-sum-exp": ("return torch.logsumexp(x, dim=1)", "", TAIL),
    "argmax": ("return x.argmax(1)", "", TAIL),
    "element-wise, mean over everything": ("return torch.tanh(x * 1.5).mean()", "", TAIL),
    "element-wise, sum over everything": ("return (x.exp() + 1).log().sum()", "", TAIL),
    "two inputs, mean over everything": ("return F.mse_loss(x, x.flip(0).sin()).sqrt()", "", TAIL),
    "gemm, element-wise, mean of means": ("return F.silu(self.linear(x)).mean(1).mean()", LINEAR, TAIL),
    "one number": ("return x.sum()", "", TAIL),
    "unit rows": ("return F.normalize(x, dim=1)", "", TAIL),
    "causal attention": (
        "return F.scaled_dot_product_attention(x[None], x[None] + 1, x[None] * 2, is_causal=True)", "", TAIL
    ),
    "gemm, relu, divide": ("return torch.relu(self.linear(x)) / 2.0", LINEAR, TAIL),
    "gemm, sigmoid, sum": ("return torch.sigmoid(self.linear(x)).sum(1)", LINEAR, TAIL),
    "gemm, layer norm": ("return self.n(self.linear(x))", f"{LINEAR}\nself.n = nn.LayerNorm(8)", TAIL),
    "gemm, batch norm with a bias that does not show": (
        "return self.norm(self.linear(x))", f"{LINEAR}\nself.norm = nn.BatchNorm1d(8)", TAIL
    ),
    "residual branch that starts at zero": (
        "return x + self.g * torch.tanh(x)", "self.g = nn.Parameter(torch.zeros(32))", TAIL
    ),
    "fresh batch norm in eval mode": ("return self.n(x)", "self.n = nn.BatchNorm1d(32)\nself.eval()", TAIL),
    "conv, relu, bias": (
        "return torch.relu(self.conv(x)) + self.b",
        f"{CONV}\nself.b = nn.Parameter(torch.randn(4, 1, 1))", IMAGES,
    ),
    "conv, instance norm": ("return F.instance_norm(self.conv(x)) / 2", CONV, IMAGES),
    "conv, min over channels": ("return torch.tanh(self.conv(x).min(1, keepdim=True).values)", CONV, IMAGES),
    "depthwise conv summed over channels": (
        "return self.conv(x).sum(1)", "self.conv = nn.Conv2d(3, 3, 3, groups=3, bias=False)", IMAGES
    ),
    "pooling": ("return F.max_pool2d(x, 2)", "", IMAGES),
    "upper triangle": ("return torch.triu(x.T @ x)", "", TAIL),
    "huber loss": ("return F.smooth_l1_loss(x, x.flip(0) * 2)", "", TAIL),
    "a batch of products, summed over the batch": ("return (x.view(4, 4, 32) @ x.view(4, 32, 4)).sum(0)", "", TAIL),
    "cumulative": ("return torch.cumprod(torch.tanh(x), 1)", "", TAIL),
    "branches": ("return torch.where(x > 0, torch.log1p(x.abs()), x * 0.1)", "", TAIL),
}  # fmt: skip


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_problems_are_admitted_with_a_flag(name: str, tmp_path: Path) -> None:
    forward, init, reason, tail = DEGENERATE[name]
    report = examine(module(forward, init, tail), tmp_path)
    assert (report.state, report.reason) == ("degenerate", reason)
    first = report.flaws[0]
    assert (first.code, first.message, first.flags) == (reason, report.message, True) and first.fix
    assert any(stage.state == "warned" and first.message in stage.detail for stage in report.stages)


@pytest.mark.parametrize("name", HONEST)
def test_honest_problems_are_not_called_degenerate(name: str, tmp_path: Path) -> None:
    forward, init, tail = HONEST[name]
    report = examine(module(forward, init, tail), tmp_path)
    assert (report.state, report.message) == ("admitted", "")


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_the_problems_of_the_self_test_are_admitted(path: Path, tmp_path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    report = examine(source, tmp_path, case_for("interpreter", declared_cases(source)))
    expected = DEGENERATE_ON_PURPOSE.get(path.stem, "")
    assert (report.state, report.reason) == ("degenerate" if expected else "admitted", expected)


def test_an_output_that_ignores_the_input_is_told_so(tmp_path: Path) -> None:
    report = examine(module("return torch.ones(3) * self.scale", "self.scale = nn.Parameter(torch.ones(3))"), tmp_path)
    assert "does not depend on the input" in report.message


def test_a_bias_without_effect_is_worth_knowing_and_no_more(tmp_path: Path) -> None:
    source = module("return self.norm(self.linear(x))", "self.linear = nn.Linear(32, 8)\nself.norm = nn.BatchNorm1d(8)")
    (flaw,) = examine(source, tmp_path).flaws
    assert (flaw.code, flaw.flags) == ("problem.silent_parameters", False) and "linear.bias" in flaw.message


def test_inputs_that_no_seed_changes_are_told(tmp_path: Path) -> None:
    source = module(
        "return torch.relu(x * 2 - 1)", tail=TAIL.replace("torch.randn(SIZE, 32)", "torch.arange(512.0).view(16, 32)")
    )
    report = examine(source, tmp_path)
    assert report.state == "admitted" and [flaw.code for flaw in report.flaws] == ["problem.seed_insensitive"]


def test_a_dimension_of_one_element_in_a_small_case_alone_is_no_flaw(tmp_path: Path) -> None:
    tail = inputs("16, HEADS, 32") + '\ndef get_cases():\n    return {"interpreter": {"HEADS": 1}}\n'
    source = module("return torch.tanh(x).mean(1)", tail=tail, head="import torch\nfrom torch import nn\nHEADS = 4\n")
    assert examine(source, tmp_path, "interpreter").state == "admitted"
    assert (
        examine(source.replace("HEADS = 4", "HEADS = 1"), tmp_path / "..", "interpreter").reason == "problem.dead_ops"
    )


def test_several_flaws_are_told_with_the_gravest_first(tmp_path: Path) -> None:
    forward, init, _, tail = DEGENERATE["51"]
    report = examine(module(forward, init, tail), tmp_path)
    assert [flaw.code for flaw in report.flaws if flaw.flags] == ["problem.dead_ops", "problem.collapses"]
    assert "logsumexp" in report.flaws[0].message and "self.linear" not in report.flaws[0].message


FLAWED = {"state": "refused", "reason": TOO_BIG, "flaws": [{"flags": True}]}
DEVICES = {
    "none": ([], "admitted", "admitted"),
    "one that runs": ([{"state": "running"}], "refused", "refused"),
    "no report": ([None, "running"], "admitted", "admitted"),
    "too big": ([{"state": "refused", "reason": TOO_BIG}], "admitted", "pending"),
    "too big here, admitted there": (
        [{"state": "refused", "reason": TOO_BIG}, {"state": "admitted"}],
        "pending",
        "admitted",
    ),
    "too big here, refused there": (
        [{"state": "refused", "reason": TOO_BIG}, {"state": "refused"}],
        "pending",
        "refused",
    ),
    "too big, and flawed by its shapes": ([FLAWED, {"state": "admitted"}], "pending", "degenerate"),
    "refused here, admitted there": (
        [{"state": "refused", "reason": "problem.raises"}, {"state": "admitted"}],
        "pending",
        "admitted",
    ),
    "admitted here, degenerate there": ([{"state": "admitted"}, {"state": "degenerate"}], "admitted", "degenerate"),
}


@pytest.mark.parametrize("name", DEVICES)
def test_the_reports_of_all_devices_decide_the_state(name: str) -> None:
    reports, before, state = DEVICES[name]
    assert settled_state(dict(zip("abc", reports, strict=False)), before=before) == state
