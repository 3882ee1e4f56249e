"""Two problems are one when their operators and wiring are equal, whatever the sizes and names."""

from __future__ import annotations

from typing import Any

from memory.adapt.composing import graph_signature


def graph(op: str = "aten.relu.default", size: int = 64, dim: int = -1, name: str = "x") -> dict[str, Any]:
    def node(name: str, op: str, *args: Any) -> dict[str, Any]:
        return {"name": name, "op": op, "args": list(args), "kwargs": {}}

    first = node(name, "input")
    return {
        "nodes": [
            first,
            node("a", op, {"node": name}),
            node("b", "aten.amax.default", {"node": "a"}, [dim], [size]),
            node("output", "output", {"node": "b"}),
        ]
    }


def test_sizes_and_names_do_not_count():
    assert graph_signature(graph(size=64)) == graph_signature(graph(size=128, name="y"))


def test_operators_and_small_arguments_count():
    assert len({graph_signature(one) for one in (graph(), graph(op="aten.gelu.default"), graph(dim=1))}) == 3


def test_a_graph_that_is_not_there_is_like_no_other():
    assert graph_signature(None) == graph_signature({"nodes": []}) == ""
