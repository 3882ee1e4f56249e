"""repro.py compares gradients where the policy of verdict.json asks for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.search.interchange.test_repro_numerics import script


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(32))

    def forward(self, x, n):
        return torch.tanh(x) * self.w, n + 1


def kernel(backward) -> type[torch.nn.Module]:
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            t = torch.tanh(x)
            ctx.save_for_backward(t, w)
            return t * w

        @staticmethod
        def backward(ctx, g):
            return backward(g, *ctx.saved_tensors)

    class ModelNew(Model):
        def forward(self, x, n):
            return Scale.apply(x, self.w), n + 1

    return ModelNew


RIGHT = kernel(lambda g, t, w: (g * w * (1 - t * t), (g * t).sum(0)))
ZEROS = kernel(lambda g, t, w: (torch.zeros_like(t), (g * t).sum(0)))
MEAN = kernel(lambda g, t, w: (g * w * (1 - t * t), (g * t).mean(0)))


def check(functions: dict[str, Any], new: type[torch.nn.Module]) -> str:
    given = lambda: [torch.randn(16, 32), torch.arange(4)]  # noqa: E731
    reference = SimpleNamespace(Model=Model, get_inputs=given, get_init_inputs=list)
    pair = functions["Pair"](reference, SimpleNamespace(ModelNew=new), 3, "cpu")
    try:
        functions["check_rounds"](pair, 3)
    except functions["Wrong"] as wrong:
        return str(wrong)
    return ""


@pytest.mark.parametrize(
    ("gradients", "new", "wrong"),
    [
        ("all", RIGHT, ""),
        ("inputs", ZEROS, "gradient of input.list0"),
        ("parameters", ZEROS, ""),
        ("parameters", MEAN, "gradient of w"),
        ("inputs", MEAN, ""),
        ("none", ZEROS, ""),
    ],
    ids=["right", "zeros", "zeros not asked", "mean", "mean not asked", "none"],
)
@torch.no_grad()
def test_it_compares_the_gradients_that_are_asked_for(tmp_path, gradients, new, wrong):
    found = check(script(tmp_path, gradients=gradients), new)
    assert wrong in found and bool(found) == bool(wrong)
