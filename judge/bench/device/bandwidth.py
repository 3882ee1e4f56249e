"""The bandwidth that a GPU's memory is seen to reach."""

from __future__ import annotations

import torch

PROBE_BYTES = 1 << 30
PROBE_RUNS = 8


def bandwidth_bytes_per_us(device: str) -> float:
    """The best of a few large reads and copies, both directions counted. Hold the GPU alone meanwhile."""
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
