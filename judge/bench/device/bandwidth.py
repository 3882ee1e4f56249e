"""The bandwidth that a GPU's memory is seen to reach."""

from __future__ import annotations

import torch

from judge.bench.device.rousing import rouse

PROBE_BYTES = 1 << 30
PROBE_RUNS = 8


def bandwidth_bytes_per_us(device: str) -> float:
    """The best of a few large reads and copies, both directions counted. Hold the GPU alone meanwhile."""
    rouse(device)
    free, _ = torch.cuda.mem_get_info(device)
    count = max(1 << 20, min(PROBE_BYTES, free // 8) // 4)
    source = torch.zeros(count, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    best = 0.0
    for run in range(2 * PROBE_RUNS):
        moved = 8 * count if run % 2 else 4 * count
        begin.record()
        if run % 2:
            target.copy_(source)
        else:
            torch.sum(source)
        end.record()
        end.synchronize()
        best = max(best, moved / (begin.elapsed_time(end) * 1e3))
    return best


def nominal_bytes_per_us(device: str) -> float:
    """What the memory's clock and bus allow, which nothing beside us lowers; 0 where torch does not tell."""
    properties = torch.cuda.get_device_properties(device)
    clock_khz, bus_bits = (getattr(properties, name, 0) for name in ("memory_clock_rate", "memory_bus_width"))
    return 2 * clock_khz / 1e3 * bus_bits / 8
