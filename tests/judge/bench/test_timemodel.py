"""Counted traffic becomes a modelled range, and the unmodified reference is exactly as fast as itself."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from judge.bench.interpreting.calibration import Constants, model_for
from judge.bench.interpreting.op_traffic import eager_traffic
from judge.bench.interpreting.targets import target
from judge.bench.interpreting.timemodel import kernel_time_us, modelled_speedup, total_us
from judge.bench.interpreting.traffic import LaunchTraffic, TrafficReport

H100 = target("sm_90")


def launch(**changes: object) -> LaunchTraffic:
    row = LaunchTraffic("k", "triton", 10_000, 10**9, 10**9, 10**9)
    return dataclasses.replace(row, **changes)  # type: ignore[arg-type]


def report(*rows: LaunchTraffic) -> TrafficReport:
    return TrafficReport(rows)


def names(fn: object, *args: torch.Tensor) -> list[str]:
    return [row.name for row in eager_traffic(fn, args).kernels]  # type: ignore[arg-type]


def test_a_gigabyte_takes_its_time_through_dram() -> None:
    constants = Constants(call_us=1.0, launch_us=3.0, dram=0.8)
    ideal = 1e9 / (3350e9) * 1e6
    assert total_us(report(launch()), H100, constants) == pytest.approx(1.0 + 3.0 + ideal / 0.8)


def test_the_range_is_the_model_s_error_either_way() -> None:
    error = model_for("sm_90").time
    low, mid, high = kernel_time_us(report(launch()), H100)
    assert (low, high) == (pytest.approx(mid / error), pytest.approx(mid * error))


def test_every_launch_costs_and_the_call_once() -> None:
    empty = launch(logical_bytes=0, sector_bytes=0, unique_bytes=0)
    constants = Constants(call_us=1.0, launch_us=3.0)
    assert total_us(report(empty, empty, empty), H100, constants) == pytest.approx(10.0)


def test_what_the_last_launch_left_in_the_l2_is_not_read_from_memory() -> None:
    half = launch(unique_bytes=20 << 20, sector_bytes=20 << 20)
    cold, warm = (Constants(resident=share) for share in (0.0, 0.5))
    assert total_us(report(half), H100, cold) == total_us(report(half), H100, warm)
    assert total_us(report(half, half), H100, warm) < total_us(report(half, half), H100, cold)


def test_flops_bound_a_dot_and_kinds_have_their_own_peaks() -> None:
    times = {
        kind: kernel_time_us(report(launch(unique_bytes=0, sector_bytes=0, dot_flops={kind: 10**12})), H100)[1]
        for kind in ("fp32", "tf32", "fp16")
    }
    assert times["fp32"] > 5 * times["tf32"] > 5 * times["fp16"]


def test_wasted_sectors_cost_l2_time() -> None:
    wasteful = launch(sector_bytes=8 * 10**9)
    assert kernel_time_us(report(wasteful), H100)[1] > 2 * kernel_time_us(report(launch()), H100)[1]


def test_a_program_waits_for_its_accesses_one_after_the_other() -> None:
    constants = Constants(call_us=1.0, launch_us=3.0, latency_us=0.5)
    lonely = launch(logical_bytes=0, sector_bytes=0, unique_bytes=0, programs=1, accesses=100)
    assert total_us(report(lonely), H100, constants) == pytest.approx(4.0 + 50.0)
    shared = dataclasses.replace(lonely, programs=100)
    assert total_us(report(shared), H100, constants) == pytest.approx(4.0 + 0.5)


def test_the_library_s_reductions_and_scans_are_slower_than_its_copies() -> None:
    def us(name: str) -> float:
        row = LaunchTraffic(f"aten.{name}", "torch", None, 10**9, 10**9, 10**9)
        return total_us(report(row), H100, Constants())

    assert us("mul") < us("amax") < us("cumsum") == us("scatter_add_")


def test_nothing_launched_is_refused() -> None:
    with pytest.raises(ValueError, match="no launch"):
        kernel_time_us(report(), H100)


def test_counts_cannot_be_negative() -> None:
    with pytest.raises(ValueError, match="negative"):
        launch(unique_bytes=-1)


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.LayerNorm(128)), (32, 64)),
        (torch.nn.LSTM(16, 32, 2), (5, 3, 16)),
        (torch.nn.Conv2d(3, 8, 3), (2, 3, 16, 16)),
    ],
)
def test_the_unmodified_reference_is_exactly_as_fast_as_itself(module: torch.nn.Module, shape: tuple[int, ...]) -> None:
    x = torch.rand(shape)
    once, again = eager_traffic(module, [x]), eager_traffic(module, [x])
    assert once == again
    assert modelled_speedup(once, again, H100) == (1.0, 1.0, 1.0)


def test_fusing_three_operators_is_modelled_faster() -> None:
    x = torch.rand(512, 512)
    eager = eager_traffic(lambda a: torch.relu(a * 2 + 1), [x])
    fused = report(launch(logical_bytes=2 * 2**20, sector_bytes=2 * 2**20, unique_bytes=2 * 2**20))
    low, mid, high = modelled_speedup(eager, fused, H100)
    assert 1.5 < mid < 4
    assert mid / low == pytest.approx(high / mid) == model_for("sm_90").speedup


def test_views_launch_nothing_and_copies_do() -> None:
    x = torch.rand(8, 16)
    assert names(lambda a: a.view(2, 8, 8)[0].t().unsqueeze(1).expand(8, 3, 8), x) == []
    assert names(lambda a: a.t().contiguous(), x) == ["aten.clone"]
    assert names(lambda a: a.contiguous(), x) == []


def test_an_elementwise_operator_moves_its_inputs_and_output() -> None:
    x = torch.rand(1000)
    [row] = eager_traffic(torch.add, [x, torch.rand(1).expand(1000)]).kernels
    assert row.unique_bytes == 4000 + 4 + 4000
    assert row.elementwise_flops == 1000


def test_overwriting_does_not_read() -> None:
    x = torch.rand(1000)
    [row] = eager_traffic(lambda a: a.zero_(), [x]).kernels
    assert row.unique_bytes == 4000
    [row] = eager_traffic(lambda a: torch.empty(1000).copy_(a), [x]).kernels
    assert row.unique_bytes == 8000


def test_attention_and_lstm_hide_no_flops() -> None:
    q = torch.rand(2, 4, 64, 32)
    attention = eager_traffic(lambda a: torch.nn.functional.scaled_dot_product_attention(a, a, a), [q])
    assert attention.flops == 4 * 8 * 64 * 64 * 32
    lstm, x = torch.nn.LSTM(16, 32), torch.rand(5, 3, 16)
    dots = eager_traffic(lstm, [x]).dot_flops
    assert sum(dots.values()) == 2 * 15 * (4 * 32 * 16 + 4 * 32 * 32)


def test_recurrent_layers_are_one_launch_each() -> None:
    gru = torch.nn.GRU(16, 32, num_layers=2, bidirectional=True)
    assert names(gru, torch.rand(50, 3, 16)).count("aten.gru") == 4


@pytest.fixture
def _switches() -> Iterator[None]:
    """As torch sets them, whatever other tests did; not by monkeypatch, which deletes what a module computes."""
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = False, True
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@pytest.mark.usefixtures("_switches")
def test_matmul_and_convolution_follow_torchs_tf32_switches() -> None:
    a = torch.rand(32, 32)
    assert eager_traffic(torch.mm, [a, a]).dot_flops == {"fp32": 2 * 32**3}
    half = a.bfloat16()
    assert eager_traffic(torch.mm, [half, half]).dot_flops == {"bf16": 2 * 32**3}
    conv = torch.nn.Conv2d(3, 8, 3)
    assert set(eager_traffic(conv, [torch.rand(1, 3, 8, 8)]).dot_flops) == {"tf32"}
    torch.backends.cudnn.allow_tf32 = False
    assert set(eager_traffic(conv, [torch.rand(1, 3, 8, 8)]).dot_flops) == {"fp32"}


@pytest.mark.bench
def test_counting_does_not_drag_in_torchs_compiler() -> None:
    code = (
        "import sys, torch; from judge.bench.interpreting.op_traffic import eager_traffic;"
        "eager_traffic(torch.relu, [torch.ones(3)]); sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
