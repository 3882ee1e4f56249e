"""How long counted traffic would take on a named GPU: MODELLED with an error, never a measurement.

For each launch, in turn: launch cost + max(unique bytes / DRAM, sector bytes / L2, FLOPs / peak), and once a cost of
the call. Assumptions: torch's own kernels read every input once and fill the device; a Triton launch with fewer
programs than SMs reaches only its share; nothing overlaps. The constants and the error are in calibration.py.
"""

from __future__ import annotations

import math

from judge.bench.calibration import Constants, model_for
from judge.bench.op_traffic import count_flops, counting_ops, eager_traffic
from judge.bench.targets import Target
from judge.bench.traffic import LaunchTraffic, Ledger, TrafficReport

__all__ = [
    "LaunchTraffic",
    "Ledger",
    "TrafficReport",
    "count_flops",
    "counting_ops",
    "eager_traffic",
    "kernel_time_us",
    "modelled_speedup",
    "total_us",
]


def kernel_time_us(report: TrafficReport, target: Target) -> tuple[float, float, float]:
    """(low, mid, high) in microseconds. Raises ValueError when nothing was launched: there is nothing to model."""
    if not report.kernels:
        raise ValueError("no launch was counted, so there is no time to model")
    model = model_for(target.name)
    middle = total_us(report, target, model.constants)
    return middle / model.time, middle, middle * model.time


def modelled_speedup(baseline: TrafficReport, candidate: TrafficReport, target: Target) -> tuple[float, float, float]:
    """(low, mid, high) of baseline time / candidate time; the range holds 9 of 10 kernels of the calibration.

    The model's error cancels where both do the same work: the unmodified reference gives exactly 1.00 three times.
    """
    if baseline == candidate:
        return 1.0, 1.0, 1.0
    model = model_for(target.name)
    ratio = total_us(baseline, target, model.constants) / total_us(candidate, target, model.constants)
    return ratio / model.speedup, ratio, ratio * model.speedup


def total_us(report: TrafficReport, target: Target, constants: Constants) -> float:
    """One forward, launch after launch, in microseconds."""
    launches = (_launch_us(row, target, constants, first=number == 0) for number, row in enumerate(report.kernels))
    return constants.call_us + sum(launches)


def _launch_us(row: LaunchTraffic, target: Target, constants: Constants, *, first: bool) -> float:
    reach = _bandwidth_share(row, target, constants)
    l2_us = row.sector_bytes / (target.l2_gb_s * 1e3 * reach * constants.l2)
    in_l2 = not first and row.unique_bytes <= constants.resident * target.l2_bytes
    dram_us = 0.0 if in_l2 else row.unique_bytes / (target.dram_gb_s * 1e3 * reach * constants.dram)
    compute_us = _compute_us(row, target, constants) / _wave_share(row, target)
    return constants.launch_us + max(dram_us, l2_us, compute_us)


def _compute_us(row: LaunchTraffic, target: Target, constants: Constants) -> float:
    """With every SM at work; tensor cores and ordinary units one after the other."""
    dots = sum(flops / (target.peak_tflops(kind) * 1e6) for kind, flops in row.dot_flops.items())
    return dots / constants.matrix + row.elementwise_flops / (target.fp32_tflops * 1e6 * constants.vector)


def _bandwidth_share(row: LaunchTraffic, target: Target, constants: Constants) -> float:
    if row.programs is None:
        return 1.0
    return min(1.0, max(1, row.programs) * constants.sm_reach / target.sm_count)


def _wave_share(row: LaunchTraffic, target: Target) -> float:
    """Share of the SMs that have work, averaged over the waves."""
    if row.programs is None:
        return 1.0
    programs = max(1, row.programs)
    return programs / (math.ceil(programs / target.sm_count) * target.sm_count)
