"""A small catalogue and seeds for tests of composing, without torch."""

from __future__ import annotations

from typing import Any

from memory.adapt.composing import Catalogue, Seed, catalogue_of

SAME = {"mul": 1, "div": 1, "add": 0}


def form(
    rank: int, out: list[dict[str, Any]], arguments: dict[str, Any] | None = None, **traits: Any
) -> dict[str, Any]:
    given = {"rank": rank, "arguments": arguments or {}, "out": out, "multiples": [1] * rank}
    return given | traits


def kept(rank: int) -> list[dict[str, Any]]:
    """Sizes that stay as they are."""
    return [{"axis": axis, **SAME} for axis in range(rank)]


def row(name: str, category: str, kind: str, *forms: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "category": category, "kind": kind, "forms": list(forms)}


DOCUMENT: dict[str, Any] = {
    "torch": "2.0",
    "operators": [
        row(
            "nn.Linear",
            "matmul",
            "layer",
            form(2, [*kept(1), {"new": True}], {"in_features": {"axis": -1}, "out_features": {"new": True}}),
        ),
        row("nn.LayerNorm", "norm", "layer", form(2, kept(2), {"normalized_shape": {"axis": -1}}, centred=True)),
        row("nn.ReLU", "activation", "layer", form(2, kept(2), nonnegative=True, keeps_positive=True)),
        row("nn.GELU", "activation", "layer", form(2, kept(2))),
        row(
            "nn.MaxPool1d",
            "pool",
            "layer",
            form(2, [*kept(1), {"axis": 1, "mul": 1, "div": 2, "add": 0}], {"kernel_size": 2}),
        ),
        row("torch.abs", "elementwise", "unary", form(2, kept(2), nonnegative=True, keeps_positive=True)),
        row("torch.exp", "elementwise", "unary", form(2, kept(2), overflows=True)),
        row("torch.mul", "elementwise", "binary", form(2, kept(2))),
        row("torch.amax", "reduction", "reduction", form(2, kept(1), {"dim": -1})),
        row("torch.sum", "reduction", "reduction", form(2, kept(1), {"dim": 1})),
        {"name": "nn.Dropout", "category": "dropout", "kind": "layer", "forms": [], "why_not": "it draws"},
    ],
}
TEXT = "import torch\n\n\ndef get_inputs():\n    return [torch.randn(8, 16)]\n\n\nx = torch.nn.functional.layer_norm\n"


def small_catalogue() -> Catalogue:
    return catalogue_of(DOCUMENT)


def some_seeds() -> list[Seed]:
    calls = {"one": "F.layer_norm(x, (16,))", "two": "torch.mul(x, x)", "three": "nn.GELU()", "four": "open('x')"}
    return [Seed(slug, f"{TEXT}\ny = {call}\n") for slug, call in calls.items()]
