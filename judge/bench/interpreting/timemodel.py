"""How long counted traffic would take on a named GPU: MODELLED with an error, never a measurement.

For each launch, in turn: launch cost + the largest of unique bytes / DRAM, sector bytes / L2, FLOPs / peak and, for a
Triton kernel, the accesses of a program one after the other; and once a cost of the call. Assumptions: torch's own
kernels read every input once and fill the device; nothing overlaps. The constants and the error are in calibration.py.
"""

from __future__ import annotations

import math

from judge.bench.interpreting.calibration import Constants, model_for
from judge.bench.interpreting.targets import Target
from judge.bench.interpreting.traffic import LaunchTraffic, TrafficReport

PROGRAMS_PER_SM = 8  # that are at work at a time, with the usual four warps each
# Library calls that stay far below the bandwidth of an element-wise one.
REDUCTIONS = frozenset(
    {
        "_log_softmax", "_softmax", "all", "amax", "amin", "any", "argmax", "argmin", "linalg_vector_norm", "max",
        "mean", "min", "native_batch_norm", "native_group_norm", "native_layer_norm", "norm", "prod", "std", "sum",
        "var", "var_mean",
    }
)  # fmt: skip
IRREGULAR = frozenset(
    {
        "bincount", "convolution", "cumprod", "cumsum", "embedding", "gather", "histc", "index", "index_add",
        "index_copy", "index_put", "index_select", "logsumexp", "max_pool2d_with_indices", "scatter", "scatter_add",
        "sort", "topk", "upsample_bilinear2d",
    }
)  # fmt: skip


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
    share = _library_share(row, constants)
    l2_us = row.sector_bytes / (target.l2_gb_s * 1e3 * constants.l2 * share)
    in_l2 = not first and row.unique_bytes <= constants.resident * target.l2_bytes
    dram_us = 0.0 if in_l2 else row.unique_bytes / (target.dram_gb_s * 1e3 * constants.dram * share)
    compute_us = _compute_us(row, target, constants) / _wave_share(row, target)
    more_us = constants.irregular_us if _operator(row) in IRREGULAR else 0.0
    return constants.launch_us + more_us + max(dram_us, l2_us, compute_us, _waiting_us(row, target, constants))


def _compute_us(row: LaunchTraffic, target: Target, constants: Constants) -> float:
    """With every SM at work; tensor cores and ordinary units one after the other."""
    reached = constants.own_matrix if row.origin == "triton" else constants.matrix
    dots = sum(flops / (target.peak_tflops(kind) * 1e6) for kind, flops in row.dot_flops.items())
    return dots / reached + row.elementwise_flops / (target.fp32_tflops * 1e6 * constants.vector)


def _library_share(row: LaunchTraffic, constants: Constants) -> float:
    """Of the bandwidth, what a library kernel of this kind reaches."""
    name = _operator(row)
    return constants.reduction if name in REDUCTIONS else constants.irregular if name in IRREGULAR else 1.0


def _operator(row: LaunchTraffic) -> str:
    """torch's name of the operator, "" for a candidate's own kernel."""
    return row.name.removeprefix("aten.").rstrip("_") if row.origin == "torch" else ""


def _waiting_us(row: LaunchTraffic, target: Target, constants: Constants) -> float:
    """The accesses of one program one after the other, and of those that wait for a place on an SM."""
    if row.programs is None:
        return 0.0
    programs = max(1, row.programs)
    waves = max(1.0, programs / (target.sm_count * PROGRAMS_PER_SM))
    return constants.latency_us * row.accesses / programs * waves


def _wave_share(row: LaunchTraffic, target: Target) -> float:
    """Share of the SMs that have work, averaged over the waves."""
    if row.programs is None:
        return 1.0
    programs = max(1, row.programs)
    return programs / (math.ceil(programs / target.sm_count) * target.sm_count)
