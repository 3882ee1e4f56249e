"""Every style of kernel candidates write. Interpreted, results are compared; compiled, each must reach machine code."""

import math

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

BLOCK_POINTERS = not triton.__version__.startswith("3.9")


@triton.jit
def softmax_kernel(x, out, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * stride + i, e / tl.sum(e, axis=0), mask=i < n)


@triton.jit
def layernorm_kernel(x, w, b, out, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    square = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + i, mask=i < n, other=0.0).to(tl.float32)
        total += v
        square += v * v
    mean = tl.sum(total, axis=0) / n
    rstd = tl.rsqrt(tl.sum(square, axis=0) / n - mean * mean + eps)
    for start in range(0, n, BLOCK):
        i = start + tl.arange(0, BLOCK)
        m = i < n
        v = tl.load(x + row * n + i, mask=m).to(tl.float32)
        y = (v - mean) * rstd * tl.load(w + i, mask=m) + tl.load(b + i, mask=m)
        tl.store(out + row * n + i, y.to(out.dtype.element_ty), mask=m)


@triton.jit
def gelu(x):
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.autotune(
    [
        triton.Config({"BM": 32, "BN": 32, "BK": 16}, num_warps=2, num_stages=2),
        triton.Config({"BM": 64, "BN": 32, "BK": 32}, num_warps=4, num_stages=3),
    ],
    key=["m", "n", "k"],
)
@triton.jit
def matmul_kernel(
    a, b, bias, c, m, n, k, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    blocks_m, blocks_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    group = pid // (GROUP * blocks_n)
    first = group * GROUP
    size = min(blocks_m - first, GROUP)
    pm = first + (pid % (GROUP * blocks_n)) % size
    pn = (pid % (GROUP * blocks_n)) // size
    rm, rn, rk = pm * BM + tl.arange(0, BM), pn * BN + tl.arange(0, BN), tl.arange(0, BK)
    pa = a + rm[:, None] * sam + rk[None, :] * sak
    pb = b + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, tl.cdiv(k, BK)):
        left = k - step * BK
        x = tl.load(pa, mask=(rm[:, None] < m) & (rk[None, :] < left), other=0.0)
        y = tl.load(pb, mask=(rk[:, None] < left) & (rn[None, :] < n), other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee")
        pa += BK * sak
        pb += BK * sbk
    acc += tl.load(bias + rn, mask=rn < n, other=0.0)[None, :]
    if ACTIVATION == "gelu":
        acc = gelu(acc)
    tl.store(c + rm[:, None] * scm + rn[None, :] * scn, acc, mask=(rm[:, None] < m) & (rn[None, :] < n))


@triton.jit
def block_matmul_kernel(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm, pn = tl.program_id(0), tl.program_id(1)
    pa = tl.make_block_ptr(a, (m, k), (k, 1), (pm * BM, 0), (BM, BK), (1, 0))
    pb = tl.make_block_ptr(b, (k, n), (n, 1), (0, pn * BN), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, k, BK):
        x = tl.load(pa, boundary_check=(0, 1), padding_option="zero")
        y = tl.load(pb, boundary_check=(0, 1), padding_option="zero")
        acc += tl.dot(x, y, input_precision="ieee")
        pa = tl.advance(pa, (0, BK))
        pb = tl.advance(pb, (BK, 0))
    pc = tl.make_block_ptr(c, (m, n), (n, 1), (pm * BM, pn * BN), (BM, BN), (1, 0))
    tl.store(pc, acc.to(c.dtype.element_ty), boundary_check=(0, 1))


@triton.jit
def attention_kernel(q, k, v, out, n, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    start, head = tl.program_id(0) * BM, tl.program_id(1) * n * D
    rm, rd = start + tl.arange(0, BM), tl.arange(0, D)
    query = tl.load(q + head + rm[:, None] * D + rd[None, :], mask=rm[:, None] < n, other=0.0)
    top = tl.full((BM,), -float("inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = tl.minimum(start + BM, n) if CAUSAL else n
    for low in range(0, end, BN):
        rn = low + tl.arange(0, BN)
        key = tl.load(k + head + rn[None, :] * D + rd[:, None], mask=rn[None, :] < n, other=0.0)
        score = tl.dot(query, key, input_precision="ieee") * scale
        valid = rn[None, :] < n
        if CAUSAL:
            valid = valid & (rm[:, None] >= rn[None, :])
        score = tl.where(valid, score, -float("inf"))
        new_top = tl.maximum(top, tl.max(score, 1))
        p = tl.exp(score - new_top[:, None])
        alpha = tl.exp(top - new_top)
        weight = weight * alpha + tl.sum(p, 1)
        value = tl.load(v + head + rn[:, None] * D + rd[None, :], mask=rn[:, None] < n, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p, value, input_precision="ieee")
        top = new_top
    tl.store(out + head + rm[:, None] * D + rd[None, :], acc / weight[:, None], mask=rm[:, None] < n)


@triton.jit
def histogram_kernel(x, counts, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.atomic_add(counts + tl.load(x + i, mask=m, other=0), 1, mask=m)


@triton.jit
def decay(a, x, b, y):
    return a * b, x * b + y


@triton.jit
def linear_scan_kernel(a, x, out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    _, h = tl.associative_scan((tl.load(a + i), tl.load(x + i)), 0, decay)
    tl.store(out + i, h)


@triton.jit
def cumsum_kernel(x, out, M: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + i, tl.cumsum(tl.load(x + i), axis=1))


@triton.jit
def sort_kernel(x, out, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(out + i, tl.sort(tl.load(x + i), descending=True))


@triton.jit
def root_kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    guess = v
    step = 0
    while step < 20:
        guess = 0.5 * (guess + v / guess)
        step += 1
    tl.store(out + i, guess)


@triton.jit
def mean_and_spread(v, N: tl.constexpr):
    mean = tl.sum(v, axis=0) / N
    return mean, tl.sum((v - mean) * (v - mean), axis=0) / N


@triton.jit
def moments_kernel(x, out, N: tl.constexpr):
    row = tl.program_id(0)
    mean, spread = mean_and_spread(tl.load(x + row * N + tl.arange(0, N)), N)
    tl.store(out + row * 2, mean)
    tl.store(out + row * 2 + 1, spread)


@triton.jit
def welford(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    delta = mean_b - mean_a
    n = n_a + n_b
    ratio = n_b / n
    return mean_a + delta * ratio, m2_a + m2_b + delta * delta * n_a * ratio, n


@triton.jit
def welford_kernel(x, out, N: tl.constexpr):
    row = tl.program_id(0)
    v = tl.load(x + row * N + tl.arange(0, N))
    mean, m2, _ = tl.reduce((v, tl.zeros((N,), tl.float32), tl.full((N,), 1.0, tl.float32)), 0, welford)
    tl.store(out + row * 2, mean)
    tl.store(out + row * 2 + 1, m2 / N)


@triton.jit
def unrolled_kernel(x, out, n, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for tap in tl.static_range(TAPS):
        j = i + tap
        acc += tl.load(x + j, mask=j < n, other=0.0)
    tl.store(out + i, acc, mask=i < n)


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def scale_kernel(x, out, n, factor, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out + i, tl.load(x + i) * factor)
    else:
        tl.store(out + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)


@triton.jit
def dropout_kernel(x, out, n, p, seed, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, i) > p
    v = tl.load(x + i, mask=i < n)
    tl.store(out + i, tl.where(keep, v / (1 - p), 0.0), mask=i < n)


@triton.jit
def persistent_kernel(x, out, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    for tile in tl.range(tl.program_id(0), tl.cdiv(n, BLOCK), PROGRAMS):
        i = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.sqrt(tl.load(x + i, mask=i < n, other=0.0)), mask=i < n)


@triton.jit
def shuffle_kernel(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :])
    even, odd = tl.split(tl.reshape(tl.trans(v), (N, N // 2, 2)))
    joined = tl.reshape(tl.join(odd, even), (N, N))
    tl.store(out + tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :], joined)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        n = x.numel()
        scale_kernel[(triton.cdiv(n, 64),)](x, out, n, 2.0, BLOCK=64)
        return out

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def _same(tool, got, expected, tolerance=1e-5):
    """Compared only where kernels ran: in the interpreter."""
    if not hasattr(tool, "recording"):
        assert torch.allclose(got.float(), expected.float(), atol=tolerance, rtol=tolerance), (got, expected)


def _run(tool, launch):
    """In the recorder every launch must have reached machine code."""
    if not hasattr(tool, "recording"):
        return launch()
    with tool.recording():
        result = launch()
    assert tool.kernels and all(row["regs"] > 0 and row["error"] is None for row in tool.kernels)
    return result


def check_softmax(tool):
    x, out = torch.randn(5, 100), torch.empty(5, 100)
    _run(tool, lambda: softmax_kernel[(5,)](x, out, x.stride(0), 100, BLOCK=128))
    _same(tool, out, x.softmax(-1))


def check_layernorm_of_half_precision(tool):
    w, b = torch.rand(100), torch.rand(100)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)):
        x = torch.randn(4, 100).to(dtype)
        out = torch.empty_like(x)
        _run(tool, lambda x=x, out=out: layernorm_kernel[(4,)](x, w, b, out, 100, 1e-5, BLOCK=64))
        _same(tool, out, F.layer_norm(x.float(), (100,), w, b), tolerance)


def check_autotuned_grouped_matmul_with_masks_and_tail(tool):
    m, n, k = 70, 50, 45
    a, b, bias, c = torch.randn(m, k), torch.randn(n, k).t(), torch.randn(n), torch.empty(m, n)

    def grid(meta):
        return (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)

    strides = (*a.stride(), *b.stride(), *c.stride())
    _run(tool, lambda: matmul_kernel[grid](a, b, bias, c, m, n, k, *strides, GROUP=2, ACTIVATION="gelu"))
    _same(tool, c, F.gelu(a @ b + bias), 1e-4)


def check_block_pointer_matmul(tool):
    if not BLOCK_POINTERS:
        return
    for dtype, tolerance in ((torch.float32, 1e-4), (torch.float16, 2e-2)):
        a, b, c = torch.randn(40, 48).to(dtype), torch.randn(48, 24).to(dtype), torch.empty(40, 24, dtype=dtype)
        launch = block_matmul_kernel[(2, 1)]
        _run(tool, lambda launch=launch, a=a, b=b, c=c: launch(a, b, c, 40, 24, 48, BM=32, BN=32, BK=16))
        _same(tool, c, a.float() @ b.float(), tolerance)


def check_flash_attention_loop(tool):
    q, k, v = (torch.randn(2, 3, 50, 32) for _ in range(3))
    scale = 1 / math.sqrt(32)
    for causal in (False, True):
        out, launch = torch.empty_like(q), attention_kernel[(2, 6)]
        _run(tool, lambda o=out, c=causal, f=launch: f(q, k, v, o, 50, scale, D=32, BM=32, BN=16, CAUSAL=c))
        _same(tool, out, F.scaled_dot_product_attention(q, k, v, is_causal=causal), 1e-4)


def check_atomics(tool):
    x, counts = torch.randint(0, 10, (300,)), torch.zeros(10, dtype=torch.int32)
    _run(tool, lambda: histogram_kernel[(3,)](x, counts, 300, BLOCK=128))
    _same(tool, counts, torch.bincount(x, minlength=10))


def check_associative_scan(tool):
    a, x, out = torch.rand(3, 64), torch.randn(3, 64), torch.empty(3, 64)
    _run(tool, lambda: linear_scan_kernel[(3,)](a, x, out, N=64))
    h, rows = torch.zeros(3), []
    for t in range(64):
        h = h * a[:, t] + x[:, t]
        rows.append(h)
    _same(tool, out, torch.stack(rows, 1))


def check_cumsum_of_two_dimensions(tool):
    x, out = torch.randn(8, 32), torch.empty(8, 32)
    _run(tool, lambda: cumsum_kernel[(1,)](x, out, M=8, N=32))
    _same(tool, out, x.cumsum(1))


def check_sort(tool):
    x, out = torch.randn(2, 64), torch.empty(2, 64)
    _run(tool, lambda: sort_kernel[(2,)](x, out, N=64))
    _same(tool, out, x.sort(-1, descending=True).values)


def check_while_loop(tool):
    x, out = torch.rand(64) + 0.5, torch.empty(64)
    _run(tool, lambda: root_kernel[(1,)](x, out, N=64))
    _same(tool, out, x.sqrt())


def check_nested_functions_with_tuple_returns(tool):
    x, out = torch.randn(3, 64), torch.empty(3, 2)
    _run(tool, lambda: moments_kernel[(3,)](x, out, N=64))
    _same(tool, out, torch.stack([x.mean(1), x.var(1, unbiased=False)], 1))


def check_custom_reduction(tool):
    x, out = torch.randn(3, 64), torch.empty(3, 2)
    _run(tool, lambda: welford_kernel[(3,)](x, out, N=64))
    _same(tool, out, torch.stack([x.mean(1), x.var(1, unbiased=False)], 1))


def check_static_range(tool):
    x, out = torch.randn(60), torch.empty(60)
    _run(tool, lambda: unrolled_kernel[(1,)](x, out, 60, TAPS=3, BLOCK=64))
    padded = F.pad(x, (0, 2))
    _same(tool, out, padded[:60] + padded[1:61] + padded[2:62])


def check_heuristics_and_constexpr_branches(tool):
    for n in (128, 100):
        x, out = torch.randn(n), torch.empty(n)
        _run(tool, lambda x=x, out=out, n=n: scale_kernel[(2,)](x, out, n, 3.0, BLOCK=64))
        _same(tool, out, x * 3)


def check_dropout_keeps_about_its_share(tool):
    x, out = torch.ones(1000), torch.empty(1000)
    _run(tool, lambda: dropout_kernel[(4,)](x, out, 1000, 0.3, 123, BLOCK=256))
    if not hasattr(tool, "recording"):
        assert 0.6 < float((out > 0).float().mean()) < 0.8
        assert torch.allclose(out[out > 0], torch.tensor(1 / 0.7))


def check_persistent_loop(tool):
    x, out = torch.rand(500), torch.empty(500)
    _run(tool, lambda: persistent_kernel[(2,)](x, out, 500, PROGRAMS=2, BLOCK=64))
    _same(tool, out, x.sqrt())


def check_reshape_transpose_split_join(tool):
    x, out = torch.randn(16, 16), torch.empty(16, 16)
    _run(tool, lambda: shuffle_kernel[(1,)](x, out, N=16))
    pairs = x.t().reshape(16, 8, 2)
    _same(tool, out, pairs.flip(-1).reshape(16, 16))


def check_kernels_inside_an_autograd_function(tool):
    x = torch.randn(100, requires_grad=True)
    out = _run(tool, lambda: Doubled.apply(x))
    _same(tool, out, x * 2)
    out.sum().backward()
    assert torch.equal(x.grad, torch.full((100,), 2.0))
