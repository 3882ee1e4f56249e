"""Runs get_inputs() so that what it makes is new each time and made where it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from judge.bench.exchange.nested import decode, packed
from judge.bench.foreign import random_state
from judge.values import Policy


class _Redirected(TorchFunctionMode):  # type: ignore[misc]
    """Random and other factories make their tensors on `device`, from the generator that the caller has seeded.

    A device or a generator written into the module is passed over: `device="cuda"` runs on a machine without a GPU,
    and a generator with a fixed seed does not give the same numbers each time.
    """

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = torch.device(device)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0].to(self.device)
        if kwargs.get("device") is not None:
            kwargs["device"] = self.device
        if kwargs.get("generator") is not None:
            kwargs["generator"] = None
        if func is torch.Tensor.to and len(args) > 1 and isinstance(args[1], str | torch.device):
            args = (args[0], self.device, *args[2:])
        return func(*args, **kwargs)


@contextmanager
def _directed(device: str) -> Iterator[None]:
    with torch.device(device), _Redirected(device):  # the inner one is asked first
        yield


def made(get_inputs: Callable[[], Any], policy: Policy, device: str, seed: int) -> list[Any]:
    """Arguments of one forward, on `device`, floating tensors in the policy's dtype; another `seed`, other content.

    Raises whatever get_inputs() does, and NotCarried for what no other process could be given.
    """
    on_device = policy.inputs == "device"
    try:
        values = _called(get_inputs, device if on_device else "cpu", seed)
    except (RuntimeError, TypeError):
        if device == "cpu" or not on_device:
            raise
        values = _called(get_inputs, "cpu", seed)  # it mixes in what comes from elsewhere, an array for example
    values = [values] if isinstance(values, torch.Tensor) else list(values)
    return list(placed(values, device, policy))


def _called(get_inputs: Callable[[], Any], device: str, seed: int) -> Any:
    random_state.reset(seed)
    with random_state.own_seeds_mixed(seed), _directed(device), torch.no_grad():
        return get_inputs()


def placed(value: Any, device: str, policy: Policy) -> Any:
    """Nested `value` with tensors on `device` and, where the policy names a dtype, floating ones in it."""
    template, tensors = packed(value, "get_inputs()")
    dtype = dtype_of(policy)

    def get(number: int) -> torch.Tensor:
        tensor = tensors[number].detach().to(device)
        return tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor

    return decode(template, get, device)


def dtype_of(policy: Policy) -> torch.dtype | None:
    """What floating inputs and parameters are cast to; None leaves them as they are."""
    return getattr(torch, policy.dtype) if policy.dtype else None


def under(policy: Policy, model: Any, device: str) -> Any:
    """`model` on `device` in the policy's dtype and mode; what is no torch.nn.Module is left as it is."""
    if not isinstance(model, torch.nn.Module):
        return model
    model = model.to(device)
    dtype = dtype_of(policy)
    if dtype is not None:
        model = model.to(dtype)  # floating parameters and buffers only
    if policy.mode != "constructed":
        model.train(policy.mode == "train")
    return model
