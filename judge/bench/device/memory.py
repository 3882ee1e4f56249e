"""How much memory a process may still take of its device, and the most that it has taken."""

from __future__ import annotations

import math
import resource
from pathlib import Path

import torch

CHILD_SHARE = 0.5  # of the GPU's, that a child may take: referee, baseline and neighbours need the same inputs again


def room_bytes(device: str) -> float:
    """Memory that this process could hold in all, what it holds now included; infinite on a CPU without a limit.

    On a GPU what its allocator keeps for later counts as free. On the CPU the limit of the address space counts.
    """
    return free_bytes(device) + held_bytes(device)


def free_bytes(device: str) -> float:
    """Memory that this process could take beyond what it holds."""
    if device != "cpu":
        free, _ = torch.cuda.mem_get_info(device)
        return float(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return math.inf if soft == resource.RLIM_INFINITY else max(0.0, soft - _address_space_bytes())


def held_bytes(device: str) -> float:
    """Bytes of this process's tensors on a GPU; nobody counts those of a CPU."""
    return 0.0 if device == "cpu" else float(torch.cuda.memory_allocated(device))


def total_bytes(device: str) -> float:
    """What the device has, in whoever's hands."""
    return math.inf if device == "cpu" else float(torch.cuda.mem_get_info(device)[1])


def relieve(device: str) -> None:
    """Give what the allocator keeps for later back to the device: another process may need it."""
    if device != "cpu":
        torch.cuda.empty_cache()


def begin_peak(device: str) -> float:
    """From now on the peak counts. Bytes held at the beginning."""
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats(device)
    return held_bytes(device)


def peak_bytes(device: str) -> int:
    """The most bytes in tensors since `begin_peak`, or ever; 0 on a CPU, where nobody counts."""
    return 0 if device == "cpu" else int(torch.cuda.max_memory_allocated(device))


def _address_space_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
