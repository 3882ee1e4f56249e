"""Lets code written for CUDA run on CPU tensors: devices are remapped, `torch.cuda` answers for the target.

Candidate code sees `x.is_cuda` and `x.device` as on a GPU, since kernels often refuse anything else; torch, triton and
the bench itself see the truth. Used by the interpreter and the recorder alike, installed once a process.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import triton
from torch.overrides import TorchFunctionMode

from judge.bench.interpreting.cuda_module import patch_torch_cuda
from judge.bench.interpreting.targets import Target

CPU = torch.device("cpu")

_TRUTHFUL = tuple(
    f"{folder}/" for folder in (Path(torch.__file__).parent, Path(triton.__file__).parent, Path(__file__).parents[1])
)
_GETTERS = {
    torch.Tensor.is_cuda.__get__: True,
    torch.Tensor.is_cpu.__get__: False,
    torch.Tensor.device.__get__: torch.device("cuda", 0),
    torch.Tensor.get_device: 0,
}
_UNINITIALISED = {
    torch.empty: torch.zeros,
    torch.empty_like: torch.zeros_like,
    torch.Tensor.new_empty: torch.Tensor.new_zeros,
}


def is_cuda_device(value: Any) -> bool:
    """Whether a value names a CUDA device: a torch.device or a string such as "cuda:0"."""
    if isinstance(value, torch.device):
        return bool(value.type == "cuda")
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


class CudaStandIn(TorchFunctionMode):  # type: ignore[misc]
    """Rewrites devices in torch calls. `zero_fill`: uninitialised memory reads as zero, so that runs repeat."""

    def __init__(self, *, zero_fill: bool) -> None:
        super().__init__()
        self.zero_fill = zero_fill

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.device:
            return func(*args, **kwargs)
        if func in _GETTERS:
            told = _called_by_candidate() and not args[0].is_meta
            return _GETTERS[func] if told else func(*args, **kwargs)
        if func is torch.Tensor.cuda or func is torch.Tensor.pin_memory:
            return args[0]
        if self.zero_fill:
            func = _UNINITIALISED.get(func, func)
        if any(map(is_cuda_device, args)):
            args = tuple(CPU if is_cuda_device(value) else value for value in args)
        return func(*args, **_on_cpu(func, args, kwargs))


def _on_cpu(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    device = kwargs.get("device")
    if is_cuda_device(device) or type(device) is int:
        kwargs = {**kwargs, "device": CPU}
    if kwargs.get("pin_memory"):
        kwargs = {**kwargs, "pin_memory": False}
    return kwargs


def _called_by_candidate() -> bool:
    """Whether the code that reads the attribute belongs neither to torch, triton nor the bench."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name == "__torch_function__":  # other modes on the way
        frame = frame.f_back
    return frame is None or not frame.f_code.co_filename.startswith(_TRUTHFUL)


_installed: CudaStandIn | None = None


def install(target: Target, *, zero_fill: bool = False) -> CudaStandIn:
    """Put the stand-in under this thread for good, and let `torch.cuda` answer for `target`. Idempotent."""
    global _installed
    if _installed is None:
        _installed = CudaStandIn(zero_fill=zero_fill)
        _installed.__enter__()
    patch_torch_cuda(target)
    return _installed
