"""What a graph costs: interpreter steps of products, convolutions, reductions; the bytes that must move."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from judge.bench.admission.graph import DOT_FLOPS, StepEstimate, compulsory_bytes, interpreter_steps, trace


def steps(model: nn.Module, *shapes: tuple[int, ...]) -> StepEstimate:
    with FakeTensorMode(allow_non_fake_inputs=True):
        return interpreter_steps(trace(model.to("cpu"), [torch.randn(shape) for shape in shapes]))


class Call(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


@pytest.mark.parametrize(
    ("model", "shapes", "flops"),
    [
        (nn.Linear(512, 1024), [(256, 512)], 2 * 256 * 512 * 1024),
        (Call(torch.matmul), [(4, 256, 512), (4, 512, 128)], 2 * 4 * 256 * 512 * 128),
        (Call(lambda c, a, b: torch.addmm(c, a, b)), [(256,), (256, 512), (512, 256)], 2 * 256 * 512 * 256),
        (nn.Conv2d(64, 128, 3, bias=False), [(8, 64, 34, 34)], 2 * 8 * 128 * 32 * 32 * 64 * 9),
        (nn.ConvTranspose2d(64, 128, 3, stride=2, bias=False), [(8, 64, 32, 32)], 2 * 8 * 64 * 32 * 32 * 128 * 9),
        (Call(nn.functional.scaled_dot_product_attention), [(2, 4, 512, 64)] * 3, 4 * 2 * 4 * 512 * 512 * 64),
    ],
)
def test_matrix_products_are_counted_by_their_flops(model: nn.Module, shapes: list, flops: int) -> None:
    assert steps(model, *shapes).steps == pytest.approx(flops / DOT_FLOPS, rel=0.01)


def test_views_cost_nothing_and_reductions_their_input() -> None:
    assert steps(Call(lambda x: x.view(-1, 2048).transpose(0, 1)), (64, 2048)).steps == 0
    assert steps(Call(lambda x: x.sum(-1)), (64, 2048)).steps == 64


def test_the_most_expensive_operator_is_named_with_its_largest_tensor() -> None:
    worst = steps(nn.Sequential(nn.Linear(4096, 16), nn.ReLU()), (2048, 4096))
    assert (worst.op, worst.shape, worst.dtype) == ("aten.linear.default", (2048, 4096), "float32")


def test_broadcast_inputs_and_unused_parameters_move_nothing_extra() -> None:
    model = nn.Linear(8, 8)
    model.unused = nn.Parameter(torch.ones(1000))
    x = torch.randn(1, 8).expand(16, 8)
    moved = compulsory_bytes(model, [x], model(x), trace(model, [x]))
    assert moved == 4 * (8 + 64 + 8 + 128)


def test_without_a_graph_every_parameter_counts() -> None:
    model = nn.Linear(8, 8)
    x = torch.randn(2, 8)
    assert compulsory_bytes(model, [x], model(x), None) == 4 * (16 + 64 + 8 + 16)
