"""The bandwidth that a GPU's memory is seen to reach, and what a copy costs as a node of a CUDA graph."""

from __future__ import annotations

import time

import torch

from judge.bench.device.warm_up import warm_up

PROBE_BYTES = 1 << 30
PROBE_RUNS = 8


def bandwidth_bytes_per_us(device: str) -> float:
    """The best of a few large reads and copies, both directions counted. Hold the GPU alone meanwhile."""
    warm_up(device)
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


FEW, MANY = 16, 64  # pairs of a kernel and a copy; the difference tells the cost of one
REPLAYS = 8
ELEMENTS = 1024


def graph_copy_us(device: str) -> float:
    """Microseconds that a small copy adds to a kernel of a CUDA graph, at least 0. Hold the GPU alone meanwhile."""
    with torch.cuda.device(device):
        source, place = (torch.zeros(ELEMENTS, device=device) for _ in range(2))
        both, kernels = (_slope_us(source, place, copies=copies) for copies in (True, False))
    return max(both - kernels, 0.0)


def _slope_us(source: torch.Tensor, place: torch.Tensor, *, copies: bool) -> float:
    few, many = (_replayed_us(source, place, count, copies=copies) for count in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def _replayed_us(source: torch.Tensor, place: torch.Tensor, count: int, *, copies: bool) -> float:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            source.fill_(1.0)
            if copies:
                place.copy_(source)
    best = float("inf")
    for _ in range(REPLAYS):
        torch.cuda.synchronize()
        began = time.perf_counter_ns()
        graph.replay()
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter_ns() - began) / 1e3)
    return best
