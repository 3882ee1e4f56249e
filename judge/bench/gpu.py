"""The device itself: its context, neutral flags, the L2 flush and the clock. On the CPU a wall clock, for tests."""

from __future__ import annotations

import ctypes
import time
from typing import Any, Protocol

import torch

IDLE_SYNC_US = 30.0  # a device-wide wait takes less than this when nothing is left to do
CACHE_BYTES = 64 << 20  # when the device does not tell the size of its L2


def make_context(device: str) -> None:
    """Create the CUDA context and load the libraries a forward needs. Must come before Landlock."""
    torch.cuda.set_device(device)
    torch.cuda.init()
    torch.zeros(1, device=device)
    torch.cuda.synchronize(device)


def settle(device: str) -> None:
    """Wait until the device has done all it was given. Raises RuntimeError for what failed on it meanwhile."""
    if device != "cpu":
        torch.cuda.synchronize(device)


def neutral_flags() -> None:
    """The same numerics for reference, baseline and candidate: TF32 off, no benchmarking of algorithms."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False


class Clock(Protocol):
    """Times one call on the device, in microseconds."""

    def flush(self) -> None: ...

    def start(self) -> None: ...

    def stop(self) -> float: ...


class CudaClock:
    """CUDA events around the call; the stop waits for every stream of the device first, then for its own event."""

    method = "cuda_events"

    def __init__(self, device: str) -> None:
        self.device = device
        properties = torch.cuda.get_device_properties(device)
        size = int(getattr(properties, "L2_cache_size", 0)) or CACHE_BYTES
        self._clean = torch.zeros(2 * size // 4, dtype=torch.float32, device=device)
        self._sink = torch.zeros((), dtype=torch.float32, device=device)
        self._begin = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)

    def flush(self) -> None:
        """Evict the L2 by reading a clean buffer twice its size: writing would leave dirty lines to pay for later."""
        torch.sum(self._clean, dim=0, out=self._sink)

    def start(self) -> None:
        self._begin.record()

    def stop(self) -> float:
        """Time from start to the end of the current stream's work, plus what other streams still had to do."""
        self._end.record()
        self._end.synchronize()
        waiting = time.perf_counter_ns()
        torch.cuda.synchronize(self.device)
        late_us = (time.perf_counter_ns() - waiting) / 1e3
        elapsed_us = float(self._begin.elapsed_time(self._end)) * 1e3
        return elapsed_us + (late_us if late_us > IDLE_SYNC_US else 0.0)


class WallClock:
    """Monotonic clock, for the CPU."""

    method = "wall_clock"

    def __init__(self) -> None:
        self._began = 0

    def flush(self) -> None:
        return

    def start(self) -> None:
        self._began = time.perf_counter_ns()

    def stop(self) -> float:
        return max(1, time.perf_counter_ns() - self._began) / 1e3


def make_clock(device: str) -> Clock:
    return WallClock() if device == "cpu" else CudaClock(device)


def facts(device: str) -> dict[str, Any]:
    """Name, memory and arch of the CUDA device."""
    if device == "cpu":
        return {}
    properties = torch.cuda.get_device_properties(device)
    return {
        "gpu": properties.name,
        "gpu_memory_bytes": properties.total_memory,
        "gpu_arch": f"sm_{properties.major}{properties.minor}",
        "gpu_sms": properties.multi_processor_count,
        "gpu_l2_bytes": int(getattr(properties, "L2_cache_size", 0)),
    }


class _IpcHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * 64)]


class IpcRefused(Exception):
    """The driver does not share device memory between these processes."""


def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def _check(result: int, call: str) -> None:
    if result != 0:
        raise IpcRefused(f"{call} returned {result}")


class _Span:
    """Device memory by address, in the form torch.as_tensor understands without owning it."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


def allocate_shared(size: int, device: str) -> tuple[torch.Tensor, str]:
    """A plain device allocation as a uint8 tensor and its IPC handle in hexadecimal. It lives as long as the process.

    Not from torch's allocator: that one may use memory which cannot be shared. Raises IpcRefused.
    """
    torch.cuda.current_stream(device).synchronize()  # the context must be current on this thread
    address = ctypes.c_uint64()
    _check(_driver().cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)), "cuMemAlloc")
    handle = _IpcHandle()
    _check(_driver().cuIpcGetMemHandle(ctypes.byref(handle), address), "cuIpcGetMemHandle")
    raw = ctypes.string_at(ctypes.byref(handle), 64)
    return torch.as_tensor(_Span(address.value, size), device=device), raw.hex()


def open_shared(handle: str, size: int, device: str) -> torch.Tensor:
    """The other side's allocation as a uint8 tensor. Raises IpcRefused."""
    torch.cuda.current_stream(device).synchronize()
    raw = _IpcHandle()
    ctypes.memmove(ctypes.byref(raw), bytes.fromhex(handle), 64)
    address = ctypes.c_uint64()
    _check(_driver().cuIpcOpenMemHandle_v2(ctypes.byref(address), raw, ctypes.c_uint(1)), "cuIpcOpenMemHandle")
    return torch.as_tensor(_Span(address.value, size), device=device)
