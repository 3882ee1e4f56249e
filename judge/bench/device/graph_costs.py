"""What a copy costs as a node of a CUDA graph: bursts that are replayed from one pay it for every output.

A copy is handed to another engine than the kernel before it. On an H200 that takes some 5 us, however small the copy:
more than a short kernel. A copy in a stream costs less.
"""

from __future__ import annotations

import time

import torch

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
