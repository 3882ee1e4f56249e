"""Nested Python values as bounded JSON: tensors become numbered places, everything else is written out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from judge.bench.exchange.claims import DEPTH_LIMIT, MOST_TENSORS, is_scalar


class NotCarried(Exception):
    """The value holds something that cannot be exchanged between processes; the text says where and what."""


@dataclass(frozen=True)
class TensorMeta:
    """How a tensor lies in its slot: dtype name ("float32"), shape and stride in elements."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorMeta:
        """Layout of `tensor`; one that overlaps itself (an expanded view) is carried contiguous."""
        stride = tuple(tensor.stride())
        if not _dense_enough(tensor):
            stride = tuple(torch.empty(tensor.shape, device="meta").stride())
        return cls(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), stride)

    @classmethod
    def given(cls, tensor: torch.Tensor) -> TensorMeta:
        """Layout of an argument: an expanded one keeps its steps of 0, since who ignores steps would be wrong there."""
        layout = cls(str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tuple(tensor.stride()))
        return layout if tensor.numel() and _dense_enough(layout.once(tensor)) else cls.of(tensor)

    def once(self, tensor: torch.Tensor) -> torch.Tensor:
        """The part of a tensor of this shape that holds every element of an expanded one once."""
        for dim, (step, size) in enumerate(zip(self.stride, self.shape, strict=True)):
            tensor = tensor.narrow(dim, 0, 1) if step == 0 and size > 1 else tensor
        return tensor

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> TensorMeta:
        return cls(str(row["dtype"]), tuple(int(v) for v in row["shape"]), tuple(int(v) for v in row["stride"]))

    def to_json(self) -> dict[str, Any]:
        return {"dtype": self.dtype, "shape": list(self.shape), "stride": list(self.stride)}

    @property
    def torch_dtype(self) -> torch.dtype:
        dtype = getattr(torch, self.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise NotCarried(f"{self.dtype!r} is no dtype")
        return dtype

    @property
    def extent(self) -> int:
        """Elements from the first to the last one, gaps included."""
        if 0 in self.shape:
            return 0
        return 1 + sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))

    @property
    def nbytes(self) -> int:
        return self.extent * int(self.torch_dtype.itemsize)


def _dense_enough(tensor: torch.Tensor) -> bool:
    """No two elements share memory and the gaps at most double the size."""
    steps = sorted((step, size) for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1)
    reach = 0
    for step, size in steps:
        if step <= reach:
            return False
        reach += step * (size - 1)
    return bool(reach + 1 <= 2 * max(1, tensor.numel()))


def encode(value: Any, put: Callable[[torch.Tensor], int], where: str = "value", depth: int = 0) -> Any:
    """`value` as JSON; `put` takes each tensor and returns its number. Raises NotCarried."""
    if depth > DEPTH_LIMIT:
        raise NotCarried(f"{where} is nested too deeply")
    kind = type(value)
    if kind in (torch.Tensor, torch.nn.Parameter):
        if value.layout is not torch.strided or value.is_quantized:
            raise NotCarried(f"{where} is a {value.layout} tensor; only dense tensors are supported")
        return {"t": put(value)}
    if isinstance(value, torch.Tensor):
        raise NotCarried(f"{where} is a {kind.__name__}, a tensor subclass; a plain torch.Tensor is needed")
    if kind is float and not math.isfinite(value):
        return {"f": repr(value)}
    if is_scalar(value):
        return {"v": value}
    if kind is complex:
        return {"c": [value.real, value.imag]}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": value.type}
    if isinstance(value, tuple | list):
        items = [encode(item, put, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": items}
    if isinstance(value, dict) and all(type(key) in (str, int, bool) and is_scalar(key) for key in value):
        return {"dict": [[key, encode(item, put, f"{where}[{key!r}]", depth + 1)] for key, item in value.items()]}
    raise NotCarried(f"{where} is a {kind.__name__}; tensors, numbers, strings, lists, tuples and dicts are supported")


def decode(data: Any, get: Callable[[int], torch.Tensor], device: str) -> Any:
    """Inverse of `encode`; `get` returns the tensor of a number. Devices become `device`."""
    ((tag, body),) = data.items()
    if tag == "t":
        return get(body)
    if tag == "v":
        return body
    if tag == "f":
        return float(body)
    if tag == "c":
        return complex(*body)
    if tag == "dtype":
        return getattr(torch, body)
    if tag == "device":
        return torch.device(device)
    if tag == "dict":
        return {key: decode(item, get, device) for key, item in body}
    items = [decode(item, get, device) for item in body]
    return tuple(items) if tag == "tuple" else items


def shape_of(data: Any) -> str:
    """The nesting in words, for messages: "(tensor, [tensor, int])"."""
    ((tag, body),) = data.items()
    if tag == "t":
        return "tensor"
    if tag == "dict":
        return "{" + ", ".join(f"{key!r}: {shape_of(item)}" for key, item in body) + "}"
    if tag in ("list", "tuple"):
        inner = ", ".join(shape_of(item) for item in body)
        return f"[{inner}]" if tag == "list" else f"({inner})"
    return "None" if tag == "v" and body is None else type(body).__name__ if tag == "v" else tag


def packed(value: Any, where: str = "value") -> tuple[Any, list[torch.Tensor]]:
    """`value` as JSON, and its tensors in the order of their numbers. Raises NotCarried."""
    tensors: list[torch.Tensor] = []

    def put(tensor: torch.Tensor) -> int:
        if len(tensors) == MOST_TENSORS:
            raise NotCarried(f"{where} has more than {MOST_TENSORS:,} tensors")
        tensors.append(tensor)
        return len(tensors) - 1

    return encode(value, put, where), tensors


def cloned(value: Any) -> Any:
    """A deep copy of nested values; tensors keep their layout."""
    return copied(value, lambda tensor: tensor.detach().clone())


def copied(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Nested values rebuilt, with what `change` makes of each tensor."""
    template, tensors = packed(value)
    device = str(tensors[0].device) if tensors else "cpu"
    return decode(template, lambda i: change(tensors[i]), device)


def mapped(change: Callable[[torch.Tensor], torch.Tensor], value: Any) -> Any:
    """`value` (nested) with `change` applied to every tensor; plain lists, tuples and dicts are entered."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if type(value) in (list, tuple):
        return type(value)([mapped(change, item) for item in value])
    if isinstance(value, dict):
        return {key: mapped(change, item) for key, item in value.items()}
    return value


def bare(value: Any, depth: int = 0) -> Any:
    """What a model returned, without code of its own: plain lists, tuples and dicts, and tensors as torch made them.

    A tensor may have been given a `detach`, and a tuple an `__iter__`, that computes where nobody looks any more.
    """
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        return torch.Tensor.detach(value)
    if depth > DEPTH_LIMIT:
        return value  # refused later
    if isinstance(value, tuple):
        return tuple(bare(item, depth + 1) for item in tuple.__iter__(value))
    if isinstance(value, list):
        return [bare(item, depth + 1) for item in list.__iter__(value)]
    if isinstance(value, dict):
        return {key: bare(item, depth + 1) for key, item in dict.items(value)}
    return value


def ordered(value: Any) -> Any:
    """`value` with the keys of every dict sorted: equal dicts are equal in whatever order they were filled."""
    if isinstance(value, dict) and all(type(key) in (str, int, bool) for key in value):
        return {key: ordered(value[key]) for key in sorted(value, key=lambda key: (type(key).__name__, key))}
    if type(value) in (list, tuple):
        return type(value)([ordered(item) for item in value])
    return value
