"""Reads from the installed torch: the classes of torch.nn with their signatures, the functions with their schemas."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

# Where torch keeps a class says what it is. Others (losses, containers, recurrent cells) take no single tensor.
FAMILIES = {
    "linear": "matmul",
    "conv": "conv",
    "activation": "activation",
    "pooling": "pool",
    "normalization": "norm",
    "batchnorm": "norm",
    "instancenorm": "norm",
    "padding": "layout",
    "upsampling": "layout",
    "pixelshuffle": "layout",
    "channelshuffle": "layout",
    "flatten": "layout",
    "fold": "layout",
    "dropout": "dropout",
}


@dataclass(frozen=True)
class Candidate:
    """Something to try. `parameters`: constructor or call arguments by name, True where one must be given."""

    name: str
    category: str
    kind: str  # "layer", "unary", "binary" or "reduction"
    make: Callable[..., Any]
    parameters: dict[str, bool] = field(default_factory=dict)


def layers() -> Iterator[Candidate]:
    """Every public class of torch.nn that is kept where layers are."""
    for name in sorted(dir(nn)):
        found = getattr(nn, name)
        if not (isinstance(found, type) and issubclass(found, nn.Module)) or name.startswith(("Lazy", "_")):
            continue
        category = FAMILIES.get(found.__module__.rpartition(".")[2])
        if category is not None:
            yield Candidate(f"nn.{name}", category, "layer", found, _parameters(found))


def _parameters(found: type[nn.Module]) -> dict[str, bool]:
    signature = inspect.signature(found.__init__)
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    own = list(signature.parameters.values())[1:]
    return {one.name: one.default is inspect.Parameter.empty for one in own if one.kind in plain}


def functions() -> Iterator[Candidate]:
    """Public functions of torch with a schema: of one tensor, of two, or of one and a dimension that goes.

    Short names first: of several names for one thing the plainest is kept.
    """
    seen: set[tuple[str, str]] = set()
    for schema in sorted(torch._C._jit_get_all_schemas(), key=lambda one: (len(one.name), str(one))):
        space, _, name = schema.name.partition("::")
        kind = _kind(schema)
        if space != "aten" or name.startswith("_") or name.endswith("_") or not kind or (name, kind) in seen:
            continue
        found = getattr(torch, name, None)
        if callable(found):
            seen.add((name, kind))
            category = "reduction" if kind == "reduction" else "elementwise"
            yield Candidate(f"torch.{name}", category, kind, found)


def _kind(schema: Any) -> str:
    """By the arguments; empty for all that is neither."""
    given = [(one.name, str(one.type)) for one in schema.arguments if not one.has_default_value()]
    names = {one.name for one in schema.arguments}
    if [str(one.type) for one in schema.returns] != ["Tensor"] or "out" in names or not given:
        return ""
    if given[0] != ("self", "Tensor"):
        return ""
    if "keepdim" in names and "dim" in names and all(name in ("self", "dim") for name, _ in given):
        return "reduction"
    if len(given) == 1 and "dim" not in names:
        return "unary"
    return "binary" if len(given) == 2 and given[1] == ("other", "Tensor") else ""
