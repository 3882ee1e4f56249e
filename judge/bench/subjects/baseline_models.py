"""What a baseline makes of the reference: another layout, torch's own attention, autocast, torch.compile."""

from __future__ import annotations

from typing import Any

import torch

from judge.bench.exchange.nested import mapped
from judge.values import Baseline

_LAYOUTS = {4: torch.channels_last, 5: torch.channels_last_3d}


class NotFitting(Exception):
    """The model has not what the baseline changes; the text says what."""


def as_baseline(baseline: Baseline, model: Any, device: str) -> Any:
    """`model`, ready with its parameters, as the baseline runs it. Raises NotFitting, and what torch raises."""
    if baseline.channels_last:
        channels_last(model)
    if baseline.attention:
        model = WithAttention(model)
    if baseline.autocast:
        model = Autocast(model, device)
    return torch.compile(model, mode=baseline.mode) if baseline.mode else model


def channels_last(model: Any) -> None:
    """Lay weights of four and five dimensions out channels last; inputs are given as they come."""
    own = model.parameters() if isinstance(model, torch.nn.Module) else ()
    weights = [one for one in own if one.dim() in _LAYOUTS]
    if not weights:
        raise NotFitting("the model has no weight of four or five dimensions")
    for weight in weights:
        weight.data = weight.data.contiguous(memory_format=_LAYOUTS[weight.dim()])


class Autocast(torch.nn.Module):  # type: ignore[misc]
    """Runs a model under autocast to bfloat16; its outputs are float32 again, which is part of the call."""

    def __init__(self, model: Any, device: str) -> None:
        super().__init__()
        self.model, self.kind = model, torch.device(device).type

    def forward(self, *args: Any) -> Any:
        with torch.autocast(self.kind, dtype=torch.bfloat16):
            out = self.model(*args)
        return mapped(lambda tensor: tensor.float() if tensor.dtype == torch.bfloat16 else tensor, out)


class WithAttention(torch.nn.Module):  # type: ignore[misc]
    """Runs a model with every softmax(scale * Q K^T + mask) V by scaled_dot_product_attention.

    The model is exported at its first call, with the shapes given then. Raises NotFitting from that call when torch
    cannot export it or there is nothing to replace. Whether the outputs are right is asked by whoever times it.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.exported: Any = None

    def forward(self, *args: Any) -> Any:
        if self.exported is None:
            self.exported = with_attention(self.model, args)
        return self.exported(*args)


def with_attention(model: Any, inputs: tuple[Any, ...]) -> Any:
    """The exported model with the replacements made. Raises NotFitting."""
    try:
        exported = torch.export.export(model, inputs, strict=False).module()
    except Exception as error:  # exporting runs the model's own code, which may raise anything
        raise NotFitting(f"torch.export cannot trace the model: {error}") from error
    found = [one for node in list(exported.graph.nodes) if (one := _match(node)) is not None]
    if not found:
        raise NotFitting("the model has no softmax(QK^T)V that could be replaced")
    for one in found:
        one.replace(exported.graph)
    exported.graph.eliminate_dead_code()
    exported.recompile()
    return exported


_aten = torch.ops.aten
_PRODUCTS = {_aten.matmul.default, _aten.bmm.default}
_SOFTMAX = {_aten.softmax.int, _aten._softmax.default}


class _Attention:
    """One match: the node of the second product, and what it is made of, as nodes of a torch.fx graph."""

    def __init__(self, last: Any, query: Any, key: Any, value: Any, scale: float, mask: Any, *, keeps: bool) -> None:
        """`keeps`: a boolean mask tells what takes part, else what does not."""
        self.last, self.qkv, self.scale, self.mask, self.keeps = last, (query, key, value), scale, mask, keeps

    def replace(self, graph: Any) -> None:
        """Let the graph call torch's function instead. Fused kernels take four dimensions."""
        flat = _rank(self.qkv[0]) == 3
        with graph.inserting_before(self.last):
            mask = self.mask
            if mask is not None and not self.keeps:
                mask = graph.call_function(_aten.logical_not.default, (mask,))
            lifted = [graph.call_function(_aten.unsqueeze.default, (one, 0)) if flat else one for one in self.qkv]
            found = graph.call_function(
                _aten.scaled_dot_product_attention.default, tuple(lifted), {"attn_mask": mask, "scale": self.scale}
            )
            found = graph.call_function(_aten.squeeze.dim, (found, 0)) if flat else found
        self.last.replace_all_uses_with(found)
        between, unused = self.last.args[0], self.last
        while not unused.users:  # dropout counts as impure, so nobody else would remove it
            graph.erase_node(unused)
            if unused.target in _PRODUCTS and unused is not self.last:
                break
            unused, between = between, between.args[0]


def _match(node: Any) -> _Attention | None:
    """The match that ends in `node`, or None: nothing in between may have another user."""
    if node.target not in _PRODUCTS or _rank(node) not in (3, 4):
        return None
    weights, value = node.args
    softmax = _through_dropout(weights)
    if softmax is None or softmax.target not in _SOFTMAX or softmax.args[1] not in (-1, _rank(softmax) - 1):
        return None
    scores, scale, mask, keeps = softmax.args[0], 1.0, None, True
    while _used_once(scores) and scores.target not in _PRODUCTS:
        number = scores.args[1] if len(scores.args) > 1 else None
        if scores.target in (_aten.mul.Tensor, _aten.mul.Scalar) and isinstance(number, int | float):
            scale *= number
        elif scores.target in (_aten.div.Tensor, _aten.div.Scalar) and isinstance(number, int | float):
            scale /= number
        elif mask is None and scale == 1.0 and scores.target is _aten.add.Tensor and _dtype(number) == _dtype(scores):
            mask = number
        elif mask is None and scale == 1.0 and scores.target is _aten.masked_fill.Scalar and _drops(scores):
            mask, keeps = number, False
        else:
            return None
        scores = scores.args[0]
    if not _used_once(scores):
        return None
    query, turned = scores.args
    key = turned.args[0] if _swaps_last(turned) else None
    if key is None or len({_rank(one) for one in (query, key, value)}) != 1 or _dtype(query) != _dtype(value):
        return None
    return _Attention(node, query, key, value, scale, mask, keeps=keeps)


def _used_once(node: Any) -> bool:
    return isinstance(node, torch.fx.Node) and node.op == "call_function" and len(node.users) == 1


def _through_dropout(node: Any) -> Any:
    """The softmax behind a dropout that does nothing; None where something else uses it."""
    while _used_once(node):
        idle = node.target is _aten.dropout.default and (node.args[1] == 0 or not node.args[2])
        if not idle:
            return node
        node = node.args[0]
    return None


def _drops(node: Any) -> bool:
    return bool(node.args[2] == float("-inf")) and _dtype(node.args[1]) == torch.bool


def _swaps_last(node: Any) -> bool:
    rank = _rank(node)
    if node.target is _aten.transpose.int:
        return {dim % rank for dim in node.args[1:]} == {rank - 2, rank - 1}
    if node.target is _aten.permute.default:
        return [dim % rank for dim in node.args[1]] == [*range(rank - 2), rank - 1, rank - 2]
    return False


def _rank(node: Any) -> int:
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return value.dim() if isinstance(value, torch.Tensor) else 0


def _dtype(node: Any) -> Any:
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    return value.dtype if isinstance(value, torch.Tensor) else None
