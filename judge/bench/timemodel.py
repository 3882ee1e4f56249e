"""How long counted traffic would take on a named GPU: a MODELLED range, never a measurement.

For each launch, in turn: launch cost + max(unique bytes / DRAM, sector bytes / L2, FLOPs / peak). Assumptions:
torch's own kernels read every input once and fill the device; a Triton launch with fewer programs than SMs reaches
only its share; clocks are the published ones; nothing overlaps.

Checked against 15 eager operators on one H200 (its own 4.8 TB/s): 10 inside the range, 5 slower than its end by up to
2.4 times (transposing copy, convolution, softmax, max and layer norm over rows of 8,192). So the model flatters eager,
and speedups over it tend to be too low. Triton kernels have not been checked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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
]

# A streaming SM can draw about this many times its even share of the memory system.
SM_BANDWIDTH_SHARE = 3.0


@dataclass(frozen=True)
class Scenario:
    """One set of assumptions: fractions of the published peaks; `own` scales Triton kernels against the library."""

    bandwidth: float
    compute: float
    launch: float
    own: float
    resident: bool  # what fits in half the L2 is still there for the next launch


OPTIMISTIC = Scenario(bandwidth=0.92, compute=0.85, launch=0.6, own=1.0, resident=True)
TYPICAL = Scenario(bandwidth=0.80, compute=0.65, launch=1.0, own=1.0, resident=False)
PESSIMISTIC = Scenario(bandwidth=0.60, compute=0.35, launch=1.8, own=0.7, resident=False)


def kernel_time_us(report: TrafficReport, target: Target) -> tuple[float, float, float]:
    """(low, mid, high) in microseconds. Raises ValueError when nothing was launched: there is nothing to model."""
    if not report.kernels:
        raise ValueError("no launch was counted, so there is no time to model")
    times = [_total_us(report, target, scenario) for scenario in (OPTIMISTIC, TYPICAL, PESSIMISTIC)]
    return min(times), times[1], max(times)


def modelled_speedup(baseline: TrafficReport, candidate: TrafficReport, target: Target) -> tuple[float, float, float]:
    """(low, mid, high) of baseline time / candidate time, both under the same assumptions.

    The assumptions cancel where both do the same work: the unmodified reference gives exactly 1.00 three times.
    """
    ratios = [
        _total_us(baseline, target, scenario) / _total_us(candidate, target, scenario)
        for scenario in (OPTIMISTIC, TYPICAL, PESSIMISTIC)
    ]
    return min(ratios), ratios[1], max(ratios)


def _total_us(report: TrafficReport, target: Target, scenario: Scenario) -> float:
    return sum(_launch_us(row, target, scenario, first=index == 0) for index, row in enumerate(report.kernels))


def _launch_us(row: LaunchTraffic, target: Target, scenario: Scenario, *, first: bool) -> float:
    own = scenario.own if row.origin == "triton" else 1.0
    reach = scenario.bandwidth * own * _bandwidth_share(row, target)
    l2_us = row.sector_bytes / (target.l2_gb_s * 1e3 * reach)
    in_l2 = scenario.resident and not first and row.unique_bytes <= target.l2_bytes / 2
    dram_us = 0.0 if in_l2 else row.unique_bytes / (target.dram_gb_s * 1e3 * reach)
    compute_us = _compute_us(row, target) / (scenario.compute * own * _wave_share(row, target))
    return target.launch_us * scenario.launch + max(dram_us, l2_us, compute_us)


def _compute_us(row: LaunchTraffic, target: Target) -> float:
    """Time at the full published peaks; tensor cores and ordinary units one after the other."""
    dots = sum(flops / (target.peak_tflops(kind) * 1e6) for kind, flops in row.dot_flops.items())
    return dots + row.elementwise_flops / (target.fp32_tflops * 1e6)


def _bandwidth_share(row: LaunchTraffic, target: Target) -> float:
    if row.programs is None:
        return 1.0
    return min(1.0, max(1, row.programs) * SM_BANDWIDTH_SHARE / target.sm_count)


def _wave_share(row: LaunchTraffic, target: Target) -> float:
    """Share of the SMs that have work, averaged over the waves."""
    if row.programs is None:
        return 1.0
    programs = max(1, row.programs)
    return programs / (math.ceil(programs / target.sm_count) * target.sm_count)
