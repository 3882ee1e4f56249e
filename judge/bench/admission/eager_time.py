"""How long the reference takes in eager mode: timed on a CUDA device, modelled elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from judge.bench.device.rousing import rouse
from judge.bench.device.statistics import median_interval
from judge.bench.foreign.whereabouts import FORWARD, SILENT, Whereabouts
from judge.bench.interpreting.targets import TARGETS
from judge.bench.interpreting.timemodel import kernel_time_us
from judge.bench.interpreting.traffic import TrafficReport
from judge.values import EagerTime

FLUSH_BYTES = 256 << 20
WARM_UP = 3  # allocation, library handles


def eager_time(
    model: torch.nn.Module,
    inputs: Sequence[Any],
    device: str,
    repeats: int = 32,
    whereabouts: Whereabouts = SILENT,
) -> EagerTime:
    """`repeats` forwards by CUDA events on a GPU that is awake; the L2 cache is flushed by reading before each."""
    rouse(device)
    flush = torch.zeros(FLUSH_BYTES // 4, device=device)
    samples = []
    with torch.no_grad(), torch.cuda.device(device):
        for number in range(repeats + WARM_UP):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            with whereabouts.inside(FORWARD):
                flush.sum()
                start.record()
                model(*inputs)
                end.record()
                end.synchronize()
            if number >= WARM_UP:
                samples.append(start.elapsed_time(end) * 1e3)
    low, middle, high = median_interval(samples)
    return EagerTime(middle, low, high, len(samples))


def modelled_eager(traffic: TrafficReport, target: str) -> EagerTime | None:
    """The time model's range for the reference's own launches; None when it launches nothing or the GPU is unknown."""
    if not traffic.kernels or target not in TARGETS:
        return None
    low, middle, high = kernel_time_us(traffic, TARGETS[target])
    return EagerTime(middle, low, high, 0, modelled=True)
