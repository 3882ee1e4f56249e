"""The bound of a GPU, counted by hand: bytes over bandwidth, FLOPs over the peak that the policy allows."""

from __future__ import annotations

import json

import pytest

from judge.bench.admission.costs import SPLIT, modelled_eager, roofline
from judge.bench.interpreting.traffic import LaunchTraffic, TrafficReport
from judge.values import AdmissionReport, EagerTime, Flaw, Policy, Precision, Roofline


def traffic(elementwise: int = 0, **dots: int) -> TrafficReport:
    return TrafficReport((LaunchTraffic("op", "torch", elementwise_flops=elementwise, dot_flops=dots),))


def test_bytes_that_take_longer_than_the_flops_bound_by_memory() -> None:
    bound = roofline(traffic(elementwise=67), 3350e3, "sm_90", Policy())
    assert (bound.memory_us, bound.bound, bound.bound_us) == (1.0, "memory", 1.0)
    assert bound.compute_us == pytest.approx(67 / 67e6)


def test_bf16_products_have_the_peak_of_tensor_cores() -> None:
    bound = roofline(traffic(bf16=989_000_000), 1, "sm_90", Policy())
    assert (bound.compute_us, bound.kind, bound.bound) == (1.0, "bf16", "compute")


@pytest.mark.parametrize(
    ("precision", "kind", "tflops"),
    [(Precision.STRICT, SPLIT, 494 / 3), (Precision.TF32, "tf32", 494), (Precision.HALF, "bf16", 989)],
)
def test_fp32_products_may_be_as_fast_as_the_policy_allows(precision: Precision, kind: str, tflops: float) -> None:
    """Three TF32 products of split operands are as accurate as fp32, and faster: the bound must not deny them."""
    bound = roofline(traffic(fp32=int(1e12)), 1, "sm_90", Policy(precision=precision))
    assert (bound.kind, bound.peak_tflops) == (kind, pytest.approx(tflops))
    assert bound.compute_us == pytest.approx(1e6 / tflops)


def test_a_gpu_whose_tf32_is_no_faster_keeps_its_fp32_peak() -> None:
    assert roofline(traffic(fp32=1), 1, "sm_86", Policy()).kind == "fp32"


def test_a_measured_bandwidth_replaces_the_published_one() -> None:
    bound = roofline(traffic(elementwise=1), 4800e3, "sm_90", Policy(), measured_gb_s=4800.0)
    assert (bound.memory_us, bound.source, bound.dram_gb_s) == (1.0, "measured", 4800.0)


def test_a_modelled_eager_time_has_no_samples() -> None:
    time = modelled_eager(traffic(elementwise=67_000_000), "sm_90")
    assert time is not None and (time.n, time.modelled) == (0, True)
    assert modelled_eager(TrafficReport(()), "sm_90") is None
    assert modelled_eager(traffic(elementwise=1), "sm_1") is None


def test_a_report_survives_the_wire() -> None:
    report = AdmissionReport(
        "degenerate",
        "problem.constant",
        "so",
        flaws=(Flaw("problem.constant", "so", "fix"),),
        roofline=roofline(traffic(elementwise=67), 3350e3, "sm_90", Policy()),
        eager=EagerTime(2.0, 1.0, 3.0, 16),
    )
    plain = json.loads(json.dumps(report.to_json()))
    assert AdmissionReport.from_json(plain) == report
    assert (plain["eager_us"], plain["roofline"]["bound"], plain["roofline"]["bound_us"]) == (2.0, "memory", 1.0)


def test_values_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="is degenerate"):
        AdmissionReport("admitted", flaws=(Flaw("problem.constant", "so", "fix"),))
    with pytest.raises(ValueError, match="flags no problem"):
        Flaw("problem.unused_input", "so", "fix")
    with pytest.raises(ValueError, match="positive"):
        EagerTime(2.0, 0.0, 3.0, 16)
    with pytest.raises(ValueError, match="finite"):
        Roofline("sm_90", "", 0.0, 1.0, "fp32", 1.0, 1.0)
