"""An idle GPU lowers its clocks and raises them while it works: what is measured meanwhile is the idling's.

Seen on an H200 that idled at 345 MHz: a sixth of the memory's bandwidth, and a clock that read more than twice as much
around nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

AWAKE = 0.9  # of the highest clock
WARM_UP_S = 0.5  # a GPU that is still below it then is capped, or hot: it is as fast as it gets
CYCLES = 1_000_000  # of a kernel that only counts them: 0.5 ms at 2 GHz, far above what reading a clock costs
WORK_BYTES, WORK_RUNS = 256 << 20, 20
_capped: dict[str, float] = {}  # device -> MHz that it does not exceed


def sm_mhz(device: str) -> float:
    """The clock of the multiprocessors right now, from how long CYCLES of them take."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.device(device):
        begin.record()
        torch.cuda._sleep(CYCLES)
        end.record()
        end.synchronize()
    return CYCLES / (float(begin.elapsed_time(end)) * 1e3)


def highest_mhz(device: str) -> float:
    """What the driver names as the highest clock; 0 where torch does not tell."""
    return float(getattr(torch.cuda.get_device_properties(device), "clock_rate", 0)) / 1e3


def warm_up(
    device: str,
    *,
    read: Callable[[str], float] = sm_mhz,
    highest: Callable[[str], float] = highest_mhz,
    work: Callable[[str], None] | None = None,
) -> float:
    """Keep a GPU busy until its clock is up. Seconds that took: none where it is up, WARM_UP_S at most, none for "cpu".

    Hold the GPU alone meanwhile.
    """
    if device == "cpu":
        return 0.0
    started = time.monotonic()
    target = min(AWAKE * highest(device), _capped.get(device, float("inf")))
    seen = read(device)
    if seen >= target:
        return 0.0
    work = work or _work
    while seen < target and time.monotonic() - started < WARM_UP_S:
        work(device)
        seen = read(device)
    if seen < target:
        _capped[device] = AWAKE * seen
    return time.monotonic() - started


def _work(device: str) -> None:
    free, _ = torch.cuda.mem_get_info(device)
    content = torch.zeros(max(1, min(WORK_BYTES, free // 8) // 4), device=device)
    for _ in range(WORK_RUNS):
        content.add_(1.0)
    torch.cuda.synchronize(device)
