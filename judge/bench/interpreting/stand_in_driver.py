"""A Triton driver for machines without a GPU: answers questions about the target, owns no device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from judge.bench.interpreting.targets import Target


class StandInUtils:
    """The device facts Triton and persistent kernels ask for."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """Clock rates are in kHz and only ever feed heuristics; the table does not hold them, so they are zero."""
        del device
        return {
            "max_shared_mem": self.target.shared_per_block_bytes,
            "max_num_regs": 65536,
            "multiprocessor_count": self.target.sm_count,
            "warpSize": 32,
            "sm_clock_rate": 0,
            "mem_clock_rate": 0,
            "mem_bus_width": 0,
        }


class StandInDriver(DriverBase):  # type: ignore[misc]
    """What Triton's runtime, its autotuner and its testing helpers ask of a driver."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.utils = StandInUtils(target)

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_target(self) -> Any:
        return GPUTarget("cuda", self.target.arch, 32)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        del device

    def get_current_stream(self, device: int = 0) -> int:
        del device
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        del device
        return self.target.capability

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_benchmarker(self) -> Callable[..., Sequence[float]]:
        return equal_times

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(1)

    def clear_cache(self, cache: torch.Tensor) -> None:
        del cache


def equal_times(kernel_call: Callable[[], object], *, quantiles: Any = None, **kwargs: Any) -> Sequence[float]:
    """No clock here: every configuration takes one millisecond, so the autotuner keeps the first. Nothing runs."""
    del kernel_call, quantiles, kwargs
    return [1.0, 1.0, 1.0]
