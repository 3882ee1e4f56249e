"""A Triton driver for machines without a GPU, and autotuners that take the first configuration the target can run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import triton.testing
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime.autotuner import Autotuner

from judge.bench.interpreting.targets import Target
from judge.bench.interpreting.tuning_record import tuning_key


class StandInUtils:
    """The device facts Triton and persistent kernels ask for."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def get_device_properties(self, device: int = 0) -> dict[str, int]:
        """Clock rates are in kHz and only ever feed heuristics; the table does not hold them, so they are zero."""
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
        pass

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return self.target.capability

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_benchmarker(self) -> Callable[..., Sequence[float]]:
        return equal_times

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(1)

    def clear_cache(self, cache: torch.Tensor) -> None:
        pass


def equal_times(kernel_call: Callable[[], object], *, quantiles: Any = None, **kwargs: Any) -> Sequence[float]:
    """No clock here: every configuration takes one millisecond, so the autotuner keeps the first. Nothing runs."""
    return [1.0, 1.0, 1.0]


class TunedLists:
    """Gives every autotuner one configuration: its first, until `choose` names another."""

    def __init__(self) -> None:
        self._chosen: dict[tuple[str, str], str] = {}
        self._seen: list[Any] = []

    def choose(self, rows: list[dict[str, str]]) -> None:
        """Rows of kernel, key and configuration, as the compiler found them to fit. Earlier choices are forgotten."""
        self._chosen = {(row["kernel"], row["key"]): row["config"] for row in rows}
        for tuner in self._seen:
            tuner.cache.clear()

    def install(self) -> None:
        """Replace what Triton measures by; once a process."""
        triton.testing.do_bench = _one_time
        triton.testing.do_bench_cudagraph = _one_time
        original = Autotuner.prune_configs
        lists = self

        def prune_configs(self: Any, kwargs: Any) -> Any:
            configs = list(original(self, kwargs))
            lists._seen.append(self)
            wanted = lists._chosen.get((self.base_fn.__name__, tuning_key(self, kwargs)))
            return [config for config in configs if str(config) == wanted][:1] or configs[:1]

        def bench(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
            return list(equal_times(lambda: None))

        Autotuner.prune_configs = prune_configs
        Autotuner._bench = bench


def _one_time(fn: Any, *args: Any, quantiles: Any = None, **kwargs: Any) -> Any:
    """In place of triton.testing.do_bench: nothing runs, one millisecond."""
    return [1.0 for _ in quantiles] if quantiles else 1.0
