"""The op graph of a problem, from tracing the reference in the sandbox. Plain values; the builtin proposer reads it.

Source of the form: torch.export's ATen graph, one node per operator, in execution order.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Self

from judge.values.rebuilding import rebuilt


@dataclass(frozen=True)
class TensorInfo:
    """Shape (ints), dtype ("float32") and stride (elements) of one tensor."""

    shape: tuple[int, ...]
    dtype: str
    stride: tuple[int, ...]


@dataclass(frozen=True)
class OpNode:
    """One node.

    `op` is "input", "parameter", "buffer", "constant", "output", or an ATen overload such as "aten.linear.default".
    `target` is the qualified name of a parameter or buffer ("norm.weight"), the position of an input, else "".
    Picking from a tuple result is op "getitem" with args [{"node": name}, index].
    `args`/`kwargs` hold JSON values; a reference to another node is {"node": name}; a dtype is {"dtype": "float32"};
    a dict is {"dict": {...}}; other non-JSON values (a device, inf, nan) are {"repr": text}.
    A scalar input and a small constant hold their value as args[0].
    `out` describes the result tensor, or None (tuples, scalars). `outs` describes a tuple result.
    """

    name: str
    op: str
    target: str = ""
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    out: TensorInfo | None = None
    outs: tuple[TensorInfo | None, ...] = ()


@dataclass(frozen=True)
class OpGraph:
    """Nodes in execution order; the last is "output" with one argument: what forward returned.

    A single tensor is args[0] == {"node": name}; a tuple or list is args[0] == [{"node": a}, {"node": b}], nested as
    returned.
    """

    nodes: tuple[OpNode, ...]

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return rebuilt(cls, data)
