"""The op graph that the builtin proposer reads."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from judge.bench.admission.graph import trace, trace_report
from judge.values.graph import OpGraph


class Tail(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 16)
        self.norm = nn.LayerNorm(16)
        self.register_buffer("scale", torch.ones(16))
        self.shift = torch.arange(16.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.linear(x)) * self.scale + self.shift)


class Pair(nn.Module):
    def forward(self, x: torch.Tensor, k: int) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        values, where = x.topk(k, dim=-1)
        return values.to(torch.float16), {"where": where}


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x


class Filter(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0]


def test_operators_are_aten_overloads_and_parameters_keep_their_names() -> None:
    graph = trace(Tail(), [torch.randn(4, 8)])
    ops = [node.op for node in graph.nodes if node.op.startswith("aten.")]
    assert ops == [
        "aten.linear.default",
        "aten.layer_norm.default",
        "aten.mul.Tensor",
        "aten.add.Tensor",
        "aten.relu.default",
    ]
    targets = {(node.op, node.target) for node in graph.nodes}
    assert {("parameter", "linear.weight"), ("parameter", "norm.bias"), ("buffer", "scale")} <= targets
    assert {("constant", "shift"), ("input", "0")} <= targets


def test_nodes_know_shapes_dtypes_and_strides() -> None:
    graph = trace(Tail(), [torch.randn(4, 8)])
    linear = next(node for node in graph.nodes if node.op == "aten.linear.default")
    assert (linear.out.shape, linear.out.dtype, linear.out.stride) == ((4, 16), "float32", (16, 1))


def test_a_small_constant_carries_its_values() -> None:
    graph = trace(Tail(), [torch.randn(4, 8)])
    constant = next(node for node in graph.nodes if node.op == "constant")
    assert constant.args[0] == [float(i) for i in range(16)]


def test_tuple_results_and_nested_outputs_are_kept() -> None:
    graph = trace(Pair(), [torch.randn(4, 8), 3])
    topk = next(node for node in graph.nodes if node.op.startswith("aten.topk"))
    assert topk.out is None and [info.dtype for info in topk.outs] == ["float32", "int64"]
    picks = [node for node in graph.nodes if node.op == "getitem"]
    assert [node.args for node in picks] == [({"node": topk.name}, 0), ({"node": topk.name}, 1)]
    values, rest = graph.nodes[-1].args[0]
    assert rest == {"dict": {"where": {"node": picks[1].name}}}
    cast = next(node for node in graph.nodes if node.name == values["node"])
    assert {"dtype": "float16"} in cast.args


def test_the_graph_survives_json() -> None:
    graph = trace(Pair(), [torch.randn(4, 8), 3])
    assert OpGraph.from_json(json.loads(json.dumps(graph.to_json(), allow_nan=False))).to_json() == graph.to_json()


def test_the_same_module_gives_the_same_graph_twice() -> None:
    first, second = (trace(Tail(), [torch.randn(4, 8)]) for _ in range(2))
    assert first.to_json() == second.to_json()


def test_a_huge_case_is_traced_without_memory() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        graph = trace(Tail(1 << 16), [torch.randn(1 << 22, 1 << 16)])  # one TiB, were it real
    assert graph.nodes[-2].out.shape == (1 << 22, 16)


@pytest.mark.parametrize("module", [Branch, Filter])
def test_data_dependent_code_has_no_graph_but_a_reason(module: type[nn.Module], capfd) -> None:
    answer = trace_report(module(), [torch.randn(5)])
    assert answer.graph is None
    assert "depends on the values of a tensor" in answer.reason
    assert capfd.readouterr().out == ""


def test_an_error_in_the_module_is_the_reason() -> None:
    answer = trace_report(nn.Linear(3, 3), [torch.randn(5, 4)])
    assert answer.graph is None and "could not trace" in answer.reason
