"""What an op graph says without values: operators without work, and products of which only sums are used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from judge.bench.admission.graph import trace
from judge.bench.admission.op_algebra import collapsing_products, idle_operators

Forward = Callable[..., Any]


class Module(torch.nn.Module):
    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.run = forward

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.run(*inputs)


def graph_of(forward: Forward, *shapes: tuple[int, ...]):
    found = trace(Module(forward), [torch.zeros(shape, device="meta") for shape in shapes])
    assert found is not None
    return found


def idle(forward: Forward, *shapes: tuple[int, ...]) -> list[tuple[str, bool]]:
    return [(one.op, one.constant) for one in idle_operators(graph_of(forward, *shapes)) if not one.single]


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        (lambda x: x.sum(1), [("sum", False)]),
        (lambda x: torch.max(x, dim=1).values, [("max", False)]),
        (lambda x: torch.logsumexp(x, (1,)), [("logsumexp", False)]),
        (lambda x: torch.softmax(x, -1), [("softmax", True)]),
        (lambda x: x.argmax(1), [("argmax", True)]),
        (lambda x: x.var(1, correction=0), [("var", True)]),
        (lambda x: torch.minimum(x, x), [("minimum", False)]),
        (lambda x: torch.min(x.tanh(), other=x.tanh()), [("min", False)]),
        (lambda x: x.exp() - x.exp(), [("sub", True)]),
        (lambda x: torch.where(x > 0, x.exp(), x.exp()), [("where", False)]),
        (lambda x: x.sum(0), []),
        (lambda x: x + x, []),
        (lambda x: x * x, []),
        (lambda x: x - 2 * x, []),
        (lambda x: torch.maximum(F.dropout(x, 0.5, True), F.dropout(x, 0.5, True)), []),
    ],
)
def test_operators_without_work_on_a_column(forward: Forward, expected: list[tuple[str, bool]]) -> None:
    assert idle(forward, (6, 1)) == expected


def test_reducing_a_single_number_is_not_worth_saying() -> None:
    assert idle(lambda x: x.sum().mean(), (6, 4)) == []


def collapse(forward: Forward, *shapes: tuple[int, ...]) -> list[tuple[str, int]]:
    return [(one.op, one.factor) for one in collapsing_products(graph_of(forward, *shapes))]


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        (lambda x, w: (x @ w).sum(1), [("matmul", 16)]),
        (lambda x, w: (x @ w).mean(0), [("matmul", 32)]),
        (lambda x, w: ((x @ w) / 2 + 1).sum(), [("matmul", 512)]),
        (lambda x, w: F.linear(x, w.T).mean(1), [("linear", 16)]),
        (lambda x, w: (x @ w).tanh().sum(1), []),
        (lambda x, w: (x @ w).amax(1), []),
        (lambda x, w: ((x @ w) * torch.arange(16.0, device="meta")).sum(1), []),
        (lambda x, w: ((x @ w).sum(1), x @ w), []),
        (lambda x, w: (x @ w[:, :2]).sum(1), []),
    ],
)
def test_products_that_are_only_summed(forward: Forward, expected: list[tuple[str, int]]) -> None:
    assert collapse(forward, (32, 8), (8, 16)) == expected


def test_a_batch_of_products_keeps_its_work_when_summed_over_the_batch() -> None:
    assert collapse(lambda x, y: torch.bmm(x, y).sum(0), (8, 6, 5), (8, 5, 7)) == []
    assert collapse(lambda x, y: torch.bmm(x, y).sum(2), (8, 6, 5), (8, 5, 7)) == [("bmm", 7)]


def test_a_convolution_collapses_over_all_of_its_places_or_its_channels() -> None:
    shapes = ((2, 3, 10, 10), (8, 3, 3, 3))
    assert collapse(lambda x, w: F.conv2d(x, w).mean((2, 3)), *shapes) == [("conv2d", 64)]
    assert collapse(lambda x, w: F.conv2d(x, w).sum(1), *shapes) == [("conv2d", 8)]
    assert collapse(lambda x, w: F.conv2d(x, w).sum(2), *shapes) == []
    assert collapse(lambda x, w: F.conv2d(x, w, groups=8).sum(1), (2, 8, 10, 10), (8, 1, 3, 3)) == []
