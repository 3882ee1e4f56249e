"""Counters of the interpreter against hand counts."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from judge.bench.interpreting import cuda_stand_in, interpreter

CUDA = "cuda"


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def strided(x, out, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i * STRIDE))


@triton.jit
def rows_twice(x, out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.load(x + i) * tl.load(x + i))


@triton.jit
def product(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    i, j, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + i[:, None] * K + k[None, :])
    right = tl.load(b + k[:, None] * N + j[None, :])
    tl.store(c + i[:, None] * N + j[None, :], tl.dot(left, right, input_precision=PRECISION))


@triton.jit
def chain(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    w = tl.exp(v) * 2.0 + tl.sqrt(v)
    s = tl.sum(w, axis=0)
    tl.store(out + i, tl.where(w > 1.0, w / s, w))


@triton.jit
def bump(total, N: tl.constexpr):
    tl.atomic_add(total + tl.arange(0, N), 1.0)


def check_vector_add_moves_three_arrays_of_active_lanes(adapter):
    x, y, out = torch.rand(1000), torch.rand(1000), torch.empty(1000)
    adapter.reset()
    add[(4,)](x, y, out, 1000, BLOCK=256)
    report = adapter.report()
    assert (report.launches, report.total("programs")) == (1, 4)
    assert report.total("logical_bytes") == 3 * 4000
    assert report.total("unique_bytes") == 3 * 125 * 32
    assert report.elementwise_flops == 4 * 256
    assert report.dot_flops == {}


def check_strided_loads_cost_whole_sectors(adapter):
    x, out = torch.rand(64 * 16), torch.empty(64)
    adapter.reset()
    strided[(1,)](x, out, STRIDE=16, BLOCK=64)
    report = adapter.report()
    assert report.total("logical_bytes") == 2 * 64 * 4
    assert report.total("sector_bytes") == 64 * 32 + 64 * 4
    assert report.total("unique_bytes") == 64 * 32 + 64 * 4


def check_broadcast_loads_cost_one_sector(adapter):
    x, out = torch.rand(8), torch.empty(64)
    adapter.reset()
    strided[(1,)](x, out, STRIDE=0, BLOCK=64)
    report = adapter.report()
    assert report.total("logical_bytes") == 2 * 64 * 4
    assert report.total("sector_bytes") == 32 + 64 * 4


def check_values_of_one_byte_cost_one_byte_each(adapter):
    x, out = torch.ones(64, dtype=torch.int8), torch.empty(64, dtype=torch.int8)
    adapter.reset()
    strided[(1,)](x, out, STRIDE=1, BLOCK=64)
    assert adapter.report().total("logical_bytes") == 2 * 64


def check_reading_twice_is_logical_twice_and_unique_once(adapter):
    x, out = torch.rand(4 * 64), torch.empty(4 * 64)
    adapter.reset()
    rows_twice[(4,)](x, out, N=64)
    report = adapter.report()
    assert report.total("logical_bytes") == 3 * 4 * 64 * 4
    assert report.total("unique_bytes") == 2 * 4 * 64 * 4


def check_dot_flops_are_counted_by_kind(adapter):
    a, b, c = torch.rand(16, 32), torch.rand(32, 64), torch.empty(16, 64)
    flops = 2 * 16 * 32 * 64
    for dtype, precision, kind in (
        (torch.float32, "tf32", "tf32"),
        (torch.float32, "ieee", "fp32"),
        (torch.float16, "ieee", "fp16"),
        (torch.bfloat16, "ieee", "bf16"),
    ):
        adapter.reset()
        product[(1,)](a.to(dtype), b.to(dtype), c, M=16, N=64, K=32, PRECISION=precision)
        assert adapter.report().dot_flops == {kind: flops}, kind
        assert adapter.report().elementwise_flops == 0


def check_elementwise_flops_count_arithmetic_and_reductions_only(adapter):
    x, out = torch.rand(128), torch.empty(128)
    adapter.reset()
    chain[(1,)](x, out, N=128)
    # exp, *, +, sqrt, sum, / ; the comparison and the select are free
    assert adapter.report().elementwise_flops == 6 * 128


def check_atomics_are_written_sectors(adapter):
    total = torch.zeros(32)
    adapter.reset()
    bump[(3,)](total, N=32)
    report = adapter.report()
    assert total.tolist() == [3.0] * 32
    assert report.total("logical_bytes") == 3 * 32 * 4
    assert report.total("unique_bytes") == 32 * 4


def check_torch_operators_are_counted_beside_kernels_in_order(adapter):
    x, out = torch.rand(1000), torch.empty(1000)
    with adapter.counting():
        y = torch.relu(x)
        add[(4,)](x, y, out, 1000, BLOCK=256)
        out.view(10, 100).sum()
    report = adapter.report()
    assert [row.name for row in report.kernels] == ["aten.relu", "add", "aten.sum"]
    assert [row.origin for row in report.kernels] == ["torch", "triton", "torch"]
    assert report.kernels[0].unique_bytes == 8000


def check_counting_can_be_switched_off(adapter):
    x, y, out = torch.rand(1000), torch.rand(1000), torch.empty(1000)
    adapter.reset()
    adapter.counts = False
    try:
        add[(4,)](x, y, out, 1000, BLOCK=256)
    finally:
        adapter.counts = True
    assert adapter.report().launches == 0
    assert torch.equal(out, x + y)


def check_torch_in_the_grid_is_counted(adapter):
    x, y, out = torch.rand(256), torch.rand(256), torch.empty(256)

    def grid(meta):
        y.mul_(2.0)
        return (1,)

    with adapter.counting():
        add[grid](x, y, out, 256, BLOCK=256)
    assert [row.name for row in adapter.report().kernels] == ["aten.mul_", "add"]


@triton.jit
def functions(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out + i, tl.erf(v) + libdevice.tanh(v) + libdevice.fma(v, v, 1.0) + tl.exp(tl.sort(v)))


def check_what_the_interpreter_leaves_to_torch_is_the_kernels(adapter):
    x, out = torch.rand(256), torch.empty(256)
    with adapter.counting():
        functions[(1,)](x, out, N=256)
        functions[(1,)](x=x, out=out[:256].view(256), N=256)
    assert [row.name for row in adapter.report().kernels] == ["functions", "functions"]


def check_nobody_sees_the_counters_at_work(adapter):
    seen = []

    def looks(frame, event, arg):
        if frame.f_code.co_name == "access":
            frame.f_locals["self"].logical_bytes = 0
            seen.append(event)

    x, out = torch.rand(256), torch.empty(256)
    adapter.reset()
    for watch in (sys.setprofile, sys.settrace):
        watch(looks)
        add[(1,)](x, x, out, 256, BLOCK=256)
        watch(None)
    assert adapter.report().total("logical_bytes") == 2 * 3 * 1024 and not seen


def check_no_launch_is_counted_under_a_monitor(adapter):
    x, out = torch.rand(256), torch.empty(256)
    if not hasattr(sys, "monitoring"):
        return
    sys.monitoring.use_tool_id(3, "looks")
    try:
        add[(1,)](x, x, out, 256, BLOCK=256)
    except interpreter.Unsupported as error:
        assert "sys.monitoring" in str(error)
    else:
        raise AssertionError("it was counted")
    finally:
        sys.monitoring.free_tool_id(3)


def check_numpy_gets_no_tensor_in_forward(adapter):
    x = torch.rand(4)

    def in_a_thread(one):
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(one.numpy).result()

    def without_modes(one):
        with torch._C.DisableTorchFunction():
            return one.numpy()

    def much(one):
        return [one.expand(40, 4).tolist() for _ in range(2)]

    assert x.numpy().shape == np.asarray(x).shape == (4,)
    reading = (torch.Tensor.numpy, np.asarray, lambda one: one.detach().cpu().numpy(), in_a_thread, without_modes, much)
    for reads in reading:
        with cuda_stand_in.computing():
            try:
                reads(x)
            except cuda_stand_in.HostAccess:
                continue
        raise AssertionError(f"{reads} read a tensor")
    with cuda_stand_in.computing():
        assert x.tolist() and x.sum().item() > 0 and torch.tensor([1.0, 2.0]).shape == (2,)
    assert x.numpy().shape == (4,)
