"""Where a rule holds: operator families, GPU architecture, Triton versions. An empty part means anywhere. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

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


class BadScope(ValueError):
    """The scope cannot be read. The message says what to write instead."""


@dataclass(frozen=True)
class Where:
    """What a prompt is written for: operator families of the problem, architecture ("sm_90"), Triton's version."""

    families: frozenset[str] = frozenset()
    arch: str = ""
    triton: str = ""


@dataclass(frozen=True)
class Scope:
    """`family` of operators, `arch` of a GPU, `triton` a range such as ">=3.4,<3.6". Raises BadScope."""

    family: str = ""
    arch: str = ""
    triton: str = ""

    def __post_init__(self) -> None:
        try:
            SpecifierSet(self.triton)
        except InvalidSpecifier:
            raise BadScope(f"{self.triton!r} is no range of versions. Write one such as >=3.4,<3.6.") from None

    @property
    def anywhere(self) -> bool:
        return not (self.family or self.arch or self.triton)

    def meets(self, other: Scope) -> bool:
        """Whether there may be a place where both hold: each part is the same, or one of the two says any."""
        pairs = ((self.family, other.family), (self.arch, other.arch), (self.triton, other.triton))
        return all(not one or not two or one == two for one, two in pairs)

    def holds(self, where: Where) -> bool:
        """Whether a rule of this scope applies there. What is not known of a place satisfies no bound."""
        if self.family and self.family not in where.families:
            return False
        if self.arch and self.arch != where.arch:
            return False
        return not self.triton or self._holds_triton(where.triton)

    def _holds_triton(self, version: str) -> bool:
        try:
            return Version(version) in SpecifierSet(self.triton, prereleases=True)
        except InvalidVersion:
            return False


FIELDS = {"family": 40, "arch": 20, "triton": 60}  # name of a form's field -> most characters
_OPERATOR = re.compile(r"aten\.\w+")
_ARCH = re.compile(r"(?:sm_|gfx)\d{2,4}[a-z]?")


def scope_asked(fields: Mapping[str, str]) -> Scope:
    """The scope of a form; empty or missing fields bind nothing. Raises BadScope for what no prompt could meet."""
    parts = {name: " ".join(fields.get(name, "").split()) for name in FIELDS}
    for name, most in FIELDS.items():
        if len(parts[name]) > most:
            raise BadScope(f"{parts[name][:20]!r}... is longer than {most} characters. Shorten it.")
    family, arch = parts["family"], parts["arch"]
    if family and family not in NAMES and not _OPERATOR.fullmatch(family):
        raise BadScope(f"{family!r} is no operator family. Write one of {', '.join(NAMES)}, or aten.linear.")
    if arch and not _ARCH.fullmatch(arch):
        raise BadScope(f"{arch!r} is no GPU architecture. Write one such as sm_90.")
    return Scope(**parts)
