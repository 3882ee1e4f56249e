"""What one forward of the reference costs: FLOPs, bytes that must move, the bound of a GPU, the time in eager mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from judge.bench.admission.degeneracy import Draw
from judge.bench.admission.graph import compulsory_bytes
from judge.bench.admission.reference_run import Reference
from judge.bench.admission.stages import Note, si
from judge.bench.device.bandwidth import bandwidth_bytes_per_us
from judge.bench.device.gpu_lock import GpuLock
from judge.bench.device.statistics import median_interval
from judge.bench.device.warm_up import warm_up
from judge.bench.foreign.loading import LoadedProblem
from judge.bench.foreign.whereabouts import FORWARD, SILENT, Whereabouts
from judge.bench.interpreting.calibration import factor
from judge.bench.interpreting.op_traffic import eager_traffic
from judge.bench.interpreting.targets import TARGETS, Target
from judge.bench.interpreting.timemodel import kernel_time_us
from judge.bench.interpreting.traffic import TrafficReport
from judge.values import EagerTime, Policy, Precision, Roofline
from judge.values.graph import OpGraph
from judge.values.units import microseconds

Call = tuple[Callable[..., Any], list[Any]]  # a function and its arguments
FLUSH_BYTES = 256 << 20
WARM_UP = 3  # allocation, library handles


def eager_time(
    model: Callable[..., Any],
    inputs: Sequence[Any],
    device: str,
    repeats: int = 32,
    whereabouts: Whereabouts = SILENT,
) -> EagerTime:
    """`repeats` forwards by CUDA events on a GPU that is awake; the L2 cache is flushed by reading before each."""
    warm_up(device)
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


SPLIT = "three TF32 products"  # of split operands: fp32 accuracy on tensor cores
UNKNOWN = "sm_90"  # peaks to fall back to for a GPU that no table lists; its bandwidth is measured


@dataclass(frozen=True)
class Peak:
    """The fastest arithmetic that a policy allows for one kind of product."""

    kind: str
    tflops: float


def peak_of(kind: str, target: Target, precision: Precision) -> Peak:
    """What may stand in for products of `kind` ("fp32", "tf32", "bf16", ...) and how fast it is at best."""
    if kind in ("fp32", "tf32") and precision is Precision.HALF:
        return Peak("bf16", target.bf16_tflops)
    if kind == "tf32" or (kind == "fp32" and precision is Precision.TF32):
        return Peak("tf32", target.tf32_tflops)
    if kind == "fp32" and target.tf32_tflops / 3 > target.fp32_tflops:
        return Peak(SPLIT, target.tf32_tflops / 3)
    return Peak(kind, target.peak_tflops(kind))


def roofline(
    traffic: TrafficReport, moved_bytes: float, name: str, policy: Policy, measured_gb_s: float | None = None
) -> Roofline:
    """The bound of one forward on the target called `name`, by its published peaks.

    `traffic` holds the reference's FLOPs by kind, `moved_bytes` what must move at least once; `measured_gb_s` is the
    bandwidth that the device at hand reached; the larger of the two counts, so that the bound stays one. Tensor cores
    and other units work side by side: the longer one counts.
    """
    target = TARGETS.get(name) or TARGETS[UNKNOWN]
    ordinary = Peak("fp32", target.fp32_tflops)
    spent = [(traffic.elementwise_flops / (ordinary.tflops * 1e6), ordinary)]
    by_peak: dict[Peak, float] = {}
    for kind, flops in traffic.dot_flops.items():
        peak = peak_of(kind, target, policy.precision)
        by_peak[peak] = by_peak.get(peak, 0.0) + flops / (peak.tflops * 1e6)
    products_us = sum(by_peak.values())
    main = max(by_peak, key=lambda peak: by_peak[peak], default=ordinary)
    spent.append((products_us, main))
    compute_us, limiting = max(spent, key=lambda row: row[0])
    published = target.dram_gb_s if name in TARGETS else 0.0
    bandwidth = max(measured_gb_s or 0.0, published)
    return Roofline(
        target=name,
        title=target.title,
        dram_gb_s=bandwidth,
        peak_tflops=limiting.tflops,
        kind=limiting.kind,
        memory_us=moved_bytes / (bandwidth * 1e3),
        compute_us=compute_us,
        source="published" if bandwidth == published else "measured",
    )


class Costs:
    """Counted on `device` ("cpu" or "cuda:N") for the GPU called `target` ("sm_90", or "" for none)."""

    def __init__(self, loaded: LoadedProblem, policy: Policy, device: str, target: str, lock: GpuLock) -> None:
        self.whereabouts = loaded.whereabouts
        self.policy = policy
        self.device = device
        self.target = target
        self.lock = lock
        self.traffic = TrafficReport()
        self.summary = ""
        self.call: Call | None = None  # with gradients: what is counted and timed instead of forward

    def count(self, reference: Reference, first: Draw, graph: OpGraph | None) -> dict[str, Any]:
        """`flops`, `compulsory_bytes` and, for a known GPU, `roofline`. Runs the reference once."""
        copies = pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, first.inputs)
        with self.whereabouts.inside(FORWARD):
            self.traffic = eager_traffic(*(self.call or (reference.model, copies)))
        reference.restore()
        flops = float(self.traffic.flops)
        moved = float(compulsory_bytes(reference.model, first.inputs, first.output, graph))
        self.summary = f"{si(flops)}FLOP, {si(moved)}B must move, {flops / max(moved, 1):.2g} FLOP/B"
        found: dict[str, Any] = {"flops": flops, "compulsory_bytes": moved}
        measured = self._bandwidth_gb_s()
        if measured is not None or self.target in TARGETS:
            bound = roofline(self.traffic, moved, self.target, self.policy, measured)
            found["roofline"] = bound
            self.summary += f"; no faster than {microseconds(bound.bound_us)} on {bound.target} ({bound.bound} bound)"
        return found

    def _bandwidth_gb_s(self) -> float | None:
        if self.device == "cpu":
            return None
        with self.lock.alone():
            return bandwidth_bytes_per_us(self.device) / 1e3

    def baseline(self, reference: Reference, inputs: list[Any], note: Note) -> dict[str, Any]:
        """`eager`: timed on a GPU, else the model's range."""
        if self.device == "cpu":
            modelled = modelled_eager(self.traffic, self.target)
            if modelled is None:
                note.skip("No GPU is named that a time could be modelled for.")
                return {}
            error = modelled.high_us / modelled.median_us
            note.detail = f"{microseconds(modelled.median_us)} in eager mode, MODELLED, within {factor(error)}"
            return {"eager": modelled}
        with self.lock.alone(), self.lock.without_contexts():
            run, args = self.call or (reference.model, inputs)
            found = eager_time(run, args, self.device, whereabouts=self.whereabouts)
        reference.restore()
        note.detail = f"{found.median_us:,.1f} µs in eager mode [{found.low_us:,.1f}–{found.high_us:,.1f}] n={found.n}"
        return {"eager": found}
