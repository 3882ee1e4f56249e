"""The device itself: its context, facts, and memory that two processes share."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import torch


def make_context(device: str) -> None:
    """Create the CUDA context and load the libraries a forward needs. Must come before Landlock.

    The driver loads kernels at their first launch, milliseconds each: those that every child needs are launched here.
    The driver reads the environment once: nobody may have asked it before.
    """
    assert not torch.cuda.is_initialized(), "CUDA was initialised before this process had its environment"
    torch.cuda.set_device(device)
    torch.cuda.init()
    one = torch.zeros(8, device=device)
    torch.sum(one, dim=0, out=torch.zeros((), device=device))
    one.fill_(1.0).copy_(one.clone())
    one.view(torch.uint8).fill_(1)
    torch.cuda._sleep(1)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    for mark in marks:
        mark.record()
    torch.cuda.synchronize(device)
    marks[0].elapsed_time(marks[1])


def use_context(device: str) -> None:
    """Make the context that another thread of this process has created the current one here."""
    torch.cuda.set_device(device)
    torch.cuda.synchronize(device)


def settle(device: str) -> None:
    """Wait until the device has done all it was given. Raises RuntimeError for what failed on it meanwhile."""
    if device != "cpu":
        torch.cuda.synchronize(device)


def taken_by_others(device: str) -> float:
    """Share of the GPU's memory that this process does not hold and that is not free."""
    if device == "cpu":
        return 0.0
    free, total = torch.cuda.mem_get_info(device)
    return float((total - free - torch.cuda.memory_reserved(device)) / total)


def free_bytes(device: str) -> int:
    """Memory of a CUDA device that nobody holds."""
    return int(torch.cuda.mem_get_info(device)[0])


def free_share(device: str) -> float:
    """Share of the GPU's memory that nobody holds; 1 without a GPU."""
    if device == "cpu":
        return 1.0
    free, total = torch.cuda.mem_get_info(device)
    return float(free / total)


def facts(device: str) -> dict[str, Any]:
    """Name, memory and arch of the CUDA device; how many hardware queues this process's context was to have."""
    if device == "cpu":
        return {}
    properties = torch.cuda.get_device_properties(device)
    return {
        "gpu": properties.name,
        "gpu_memory_bytes": properties.total_memory,
        "gpu_arch": f"sm_{properties.major}{properties.minor}",
        "gpu_sms": properties.multi_processor_count,
        "gpu_l2_bytes": int(getattr(properties, "L2_cache_size", 0)),
        "gpu_connections": os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS", "default"),
    }


class _IpcHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * 64)]


# The driver maps small allocations in the other process together with what shares their block: the arena of a baseline,
# with its answers. A whole block is nobody else's.
SHARED_BLOCK = 2 << 20


class IpcRefused(Exception):
    """The driver does not share device memory between these processes."""


def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


CUDA_ERROR_OUT_OF_MEMORY = 2


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


def over_memory(address: int, size: int, device: str) -> torch.Tensor:
    """`size` bytes of device memory that somebody else owns as a new uint8 tensor."""
    return torch.as_tensor(_Span(address, size), device=device)


def allocate_shared(size: int, device: str) -> tuple[torch.Tensor, str]:
    """A plain device allocation as a uint8 tensor and its IPC handle in hexadecimal. It lives as long as the process.

    Not from torch's allocator: that one may use memory which cannot be shared. Raises IpcRefused, and
    torch.OutOfMemoryError.
    """
    torch.cuda.current_stream(device).synchronize()  # the context must be current on this thread
    address = ctypes.c_uint64()
    whole = -(-size // SHARED_BLOCK) * SHARED_BLOCK
    result = _driver().cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(whole))
    if result == CUDA_ERROR_OUT_OF_MEMORY:
        raise torch.OutOfMemoryError(f"CUDA out of memory: no {whole >> 20} MiB to share between processes")
    _check(result, "cuMemAlloc")
    handle = _IpcHandle()
    _check(_driver().cuIpcGetMemHandle(ctypes.byref(handle), address), "cuIpcGetMemHandle")
    raw = ctypes.string_at(ctypes.byref(handle), 64)
    return over_memory(address.value, size, device), raw.hex()


def open_shared(handle: str, size: int, device: str) -> torch.Tensor:
    """The other side's allocation as a uint8 tensor. Raises IpcRefused."""
    torch.cuda.current_stream(device).synchronize()
    raw = _IpcHandle()
    ctypes.memmove(ctypes.byref(raw), bytes.fromhex(handle), 64)
    address = ctypes.c_uint64()
    _check(_driver().cuIpcOpenMemHandle_v2(ctypes.byref(address), raw, ctypes.c_uint(1)), "cuIpcOpenMemHandle")
    return over_memory(address.value, size, device)
