"""Op graphs written by hand, for tests that need neither torch nor a trace."""

from __future__ import annotations

from typing import Any

from judge.values.graph import OpGraph, OpNode, TensorInfo

LINEAR_SOURCE = '''"""Reference."""
import torch
import torch.nn as nn

FEATURES = 32
UNUSED = 7


def scaled(value):
    return float(value)


class Model(nn.Module):
    """A layer and its tail."""

    def __init__(self, features, divisor):
        super(Model, self).__init__()
        self.linear = nn.Linear(features, FEATURES)
        self.divisor = scaled(divisor)

    def forward(self, x):
        return torch.relu(self.linear(x)) / self.divisor


def get_inputs():
    return [torch.rand(8, 16)]


def get_init_inputs():
    return [16, 2.0]
'''

SOFTMAX_SOURCE = """import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y):
        return torch.softmax(x * 2.0, dim=-1) + y


def get_inputs():
    return [torch.rand(8, 64), torch.rand(8, 64)]


def get_init_inputs():
    return []
"""


def tensor(*shape: int) -> TensorInfo:
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return TensorInfo(shape, "float32", tuple(strides))


def ref(name: str) -> dict[str, str]:
    return {"node": name}


def linear_graph() -> dict[str, Any]:
    out = tensor(8, 32)
    return OpGraph(
        (
            OpNode("w", "parameter", "linear.weight", out=tensor(32, 16)),
            OpNode("b", "parameter", "linear.bias", out=tensor(32)),
            OpNode("x", "input", "0", out=tensor(8, 16)),
            OpNode("linear", "aten.linear.default", args=(ref("x"), ref("w"), ref("b")), out=out),
            OpNode("relu", "aten.relu.default", args=(ref("linear"),), out=out),
            OpNode("div", "aten.div.Tensor", args=(ref("relu"), 2.0), out=out),
            OpNode("output", "output", args=(ref("div"),)),
        )
    ).to_json()


def softmax_graph() -> dict[str, Any]:
    out = tensor(8, 64)
    return OpGraph(
        (
            OpNode("x", "input", "0", out=out),
            OpNode("y", "input", "1", out=out),
            OpNode("mul", "aten.mul.Tensor", args=(ref("x"), 2.0), out=out),
            OpNode("softmax", "aten.softmax.int", args=(ref("mul"), -1), out=out),
            OpNode("add", "aten.add.Tensor", args=(ref("softmax"), ref("y")), out=out),
            OpNode("output", "output", args=(ref("add"),)),
        )
    ).to_json()


def other_graph(op: str) -> dict[str, Any]:
    """One operator outside the proposer's reach between input and output."""
    out = tensor(8, 64)
    return OpGraph(
        (
            OpNode("x", "input", "0", out=out),
            OpNode("y", "input", "1", out=out),
            OpNode("other", op, args=(ref("x"),), out=out),
            OpNode("output", "output", args=(ref("other"),)),
        )
    ).to_json()
