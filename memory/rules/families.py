"""Operator families of a problem, by the ATen names of its traced graph: what a rule's scope can name. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

# family -> packets of ATen that belong to it. A packet that stands in none is element-wise or moves data.
FAMILIES: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "matmul": frozenset({"mm", "bmm", "matmul", "addmm", "baddbmm", "linear", "einsum", "dot", "mv"}),
        "attention": frozenset({"scaled_dot_product_attention"}),
        "convolution": frozenset(
            {"convolution", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}
        ),
        "normalization": frozenset(
            {"layer_norm", "native_layer_norm", "batch_norm", "native_batch_norm", "group_norm", "native_group_norm"}
            | {"instance_norm", "rms_norm", "linalg_vector_norm", "norm"}
        ),
        "softmax": frozenset({"softmax", "_softmax", "log_softmax", "_log_softmax", "logsumexp"}),
        "reduction": frozenset(
            {"sum", "mean", "amax", "amin", "max", "min", "prod", "var", "std", "var_mean", "argmax", "argmin", "any"}
            | {"all", "cumsum", "cumprod", "logsumexp", "linalg_vector_norm", "norm"}
        ),
        "pooling": frozenset(
            {"max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"}
            | {"adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool2d"}
            | {"max_pool2d_with_indices", "max_pool3d_with_indices"}
        ),
        "activation": frozenset(
            {"relu", "gelu", "silu", "sigmoid", "tanh", "mish", "softplus", "hardswish", "hardsigmoid", "hardtanh"}
            | {"leaky_relu", "elu", "selu", "celu", "softsign", "relu6", "logsigmoid", "log_sigmoid", "prelu", "glu"}
        ),
        "indexing": frozenset({"embedding", "gather", "index", "index_select", "scatter", "scatter_add", "where"}),
        "loss": frozenset({"cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "kl_div"}),
    }
)
_MOVES = frozenset(
    {"view", "reshape", "_unsafe_view", "permute", "transpose", "t", "expand", "contiguous", "clone", "detach", "cat"}
    | {"split", "chunk", "slice", "select", "squeeze", "unsqueeze", "flatten", "stack", "alias", "to", "_to_copy"}
)
ELEMENTWISE = "elementwise"
NAMES = (*FAMILIES, ELEMENTWISE)


def packet(op: str) -> str:
    """ "linear" of "aten.linear.default"; empty for what is no ATen operator."""
    parts = op.split(".")
    return parts[1].removesuffix("_") if len(parts) > 1 and parts[0] == "aten" else ""


def families_of(graph: Mapping[str, Any] | None) -> frozenset[str]:
    """Families of `OpGraph.to_json()`, and each operator as the judge names it without overload: "aten.linear".

    Empty when the problem was not traced.
    """
    nodes: Iterable[Mapping[str, Any]] = (graph or {}).get("nodes", ())
    packets = {name for node in nodes if (name := packet(str(node.get("op", ""))))}
    found = {f"aten.{name}" for name in packets}
    for name in packets:
        of = {family for family, members in FAMILIES.items() if name in members}
        found |= of or (set() if name in _MOVES else {ELEMENTWISE})
    return frozenset(found)
