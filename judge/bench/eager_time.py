"""How long the reference takes in eager mode on a CUDA device."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import torch

from judge.bench.whereabouts import FORWARD, SILENT, Whereabouts

FLUSH_BYTES = 256 << 20


def eager_time_us(
    model: torch.nn.Module,
    inputs: Sequence[Any],
    device: str,
    repeats: int = 20,
    whereabouts: Whereabouts = SILENT,
) -> float:
    """Median of `repeats` forwards by CUDA events, microseconds; the L2 cache is flushed by reading before each."""
    flush = torch.zeros(FLUSH_BYTES // 4, device=device)
    samples = []
    with torch.no_grad(), torch.cuda.device(device):
        for number in range(repeats + 3):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            with whereabouts.inside(FORWARD):
                flush.sum()
                start.record()
                model(*inputs)
                end.record()
                end.synchronize()
            if number >= 3:  # warm-up: allocation, library handles
                samples.append(start.elapsed_time(end) * 1e3)
    return float(statistics.median(samples))
