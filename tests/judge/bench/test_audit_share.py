"""Shares of the time from a trace or from counted traffic, and the time below which bytes cannot move."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from judge.bench.audit.launch_checks import Kernels
from judge.bench.audit.physics import least_us
from judge.bench.audit.share import check_products, from_trace, from_traffic
from judge.bench.exchange.rows import CountedRow
from judge.bench.interpreting.traffic import LaunchTraffic
from judge.bench.subjects.watch import traffic_row
from judge.values import Library, Verdict
from tests.judge.audit_setting import Audited, ended
from tests.judge.replies import counted, forwarded, launched, traced


def ran(*names: str) -> Kernels:
    return Kernels(frozenset(names), frozenset(), False, frozenset(), 0, {})


def test_the_share_of_a_trace_is_that_of_the_kernels_that_were_launched():
    share = from_trace(traced(mine=30.0, sgemm=60.0, triton_poi_fused_0=10.0), ran("mine"))
    assert share is not None
    assert share.value == pytest.approx(0.3)
    assert share.foreign == [("sgemm", 60.0), ("triton_poi_fused_0", 10.0)]
    assert share.compiler == {"triton_poi_fused_0"}


def test_a_kernel_named_like_the_compilers_is_the_candidates_own_when_it_launched_it():
    share = from_trace(traced(triton_poi_fused_0=10.0), ran("triton_poi_fused_0"))
    assert share is not None
    assert share.value == 1.0
    assert share.compiler == frozenset()


def test_of_nothing_there_is_no_share():
    assert from_trace([], ran("mine")) is None and from_traffic([], "sm_90") is None


def test_the_modelled_share_weighs_launches_by_their_bytes():
    small = LaunchTraffic("mine", "triton", programs=132, unique_bytes=1 << 10, sector_bytes=1 << 10)
    large = LaunchTraffic("aten.mm", "torch", unique_bytes=1 << 32, sector_bytes=1 << 32)
    share = from_traffic([CountedRow.read(traffic_row(row)) for row in (small, large)], "sm_90")
    assert share is not None
    assert 0 < share.value < 0.05
    assert share.modelled


@pytest.mark.parametrize(
    ("library", "products", "refused"),
    [
        (Library.REFUSE, 512, True),
        (Library.REFUSE, 511, False),
        (Library.LABEL, 512, False),
        (Library.REFUSE, 0, False),
    ],
)
def test_where_libraries_are_refused_torch_does_less_than_half_of_the_products(library, products, refused):
    reference = SimpleNamespace(
        load=lambda state: None,
        whereabouts=SimpleNamespace(inside=lambda where: nullcontext()),
        gradients=SimpleNamespace(arguments=lambda inputs: inputs),
        model=lambda x: x @ x,  # 8 by 8: 1024 operations
    )
    question = SimpleNamespace(state={}, inputs=(torch.ones(8, 8),))
    rows = [counted("aten.mm", "torch", dot_flops={"fp32": products}), counted("k", dot_flops={"fp32": 1024})]
    setting = Audited(library=library, reference=reference)
    if refused:
        told = ended(lambda: check_products(setting, question, rows))
        assert told == (Verdict.DISHONEST, "audit", "audit.foreign_kernels")
    else:
        check_products(setting, question, rows)


def test_a_kernel_that_failed_once_and_ran_once_did_not_always_fail():
    kernels = Kernels.of(forwarded(launches=[{**vars(launched("k", raised=3, kind="resources")), "inside": []}]))
    assert (kernels.ran, kernels.always_failed) == ({"k"}, frozenset())


def test_what_is_written_may_stay_in_the_cache_and_what_is_read_may_not():
    assert least_us(4_000_000, 1000, l2_bytes=50 << 20, bytes_per_us=4_000_000) == 1.0
    assert least_us(0, (50 << 20) + 4_000_000, l2_bytes=50 << 20, bytes_per_us=4_000_000) == 1.0


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here")
def test_the_probe_finds_a_bandwidth_that_a_gpu_can_have():
    from judge.bench.device.bandwidth import bandwidth_bytes_per_us

    assert 1e5 < bandwidth_bytes_per_us("cuda:0") < 2e7  # 0.1 to 20 TB/s
