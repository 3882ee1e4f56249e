"""Problems that ask for gradients: judged as forward, then backward with cotangents that nobody knows ahead."""

from __future__ import annotations

import pytest

from judge.values import Gradients, Policy, Verdict
from tests.judge.rounds_bench import answer, ask, codes, problem

ALL = Policy(gradients=Gradients.ALL)
INPUTS = Policy(gradients=Gradients.INPUTS)
SCALE = problem("return torch.tanh(x[0]) * self.w", init="self.w = torch.nn.Parameter(torch.randn(64))")
OWN = """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        t = torch.tanh(x)
        ctx.save_for_backward(t, w)
        return t * w
    @staticmethod
    def backward(ctx, g):
        t, w = ctx.saved_tensors
        return g * w * (1 - t * t), (g * t).sum(0)
"""
RIGHT = answer(SCALE, "return Scale.apply(x[0], self.w)").replace("class ModelNew", f"{OWN}\nclass ModelNew")


@pytest.mark.bench
def test_a_function_with_its_own_backward_passes(cpu_bench):
    found = ask(cpu_bench, SCALE, RIGHT, policy=ALL, timing=True)
    assert found.verdict is Verdict.PASS, found.message
    assert found.speedup is not None


@pytest.mark.bench
@pytest.mark.parametrize(
    ("right", "wrong", "title"),
    [
        ("g * w * (1 - t * t)", "g * w * (1 - t)", "the gradient of input 0"),
        ("(g * t).sum(0)", "(g * t).sum(0) * 2", "the gradient of w"),
        ("g * w * (1 - t * t), (g * t).sum(0)", "torch.zeros_like(t), torch.zeros_like(w)", "the gradient of input 0"),
    ],
)
def test_a_wrong_gradient_is_wrong_and_named(cpu_bench, right, wrong, title):
    assert right in RIGHT
    found = ask(cpu_bench, SCALE, RIGHT.replace(right, wrong), policy=ALL)
    assert found.verdict is Verdict.WRONG
    assert title in found.message
    assert ask(cpu_bench, SCALE, RIGHT.replace(right, wrong)).verdict is Verdict.PASS  # nobody asked for gradients
