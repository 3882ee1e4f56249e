"""The least time one forward can take on a GPU: bytes over bandwidth, FLOPs over peak, whichever is longer."""

from __future__ import annotations

from dataclasses import dataclass

from judge.bench.interpreting.targets import TARGETS, Target
from judge.bench.interpreting.traffic import TrafficReport
from judge.values import Policy, Precision, Roofline

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
