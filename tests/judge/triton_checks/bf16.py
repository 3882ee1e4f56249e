"""bfloat16 and TF32 in the interpreter agree with torch's own rounding."""

import torch
import triton
import triton.language as tl


@triton.jit
def arithmetic(x, y, out, N: tl.constexpr, OP: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.load(x + i), tl.load(y + i)
    if OP == "add":
        r = a + b
    elif OP == "sub":
        r = a - b
    elif OP == "mul":
        r = a * b
    elif OP == "div":
        r = (a / b).to(tl.bfloat16)
    elif OP == "max":
        r = tl.maximum(a, b)
    elif OP == "neg":
        r = -a
    elif OP == "abs":
        r = tl.abs(a)
    elif OP == "less":
        r = (a < b).to(tl.bfloat16)
    elif OP == "where":
        r = tl.where(a > b, a, b)
    elif OP == "scale":
        r = a * 1.5 + 0.25
    elif OP == "fma":
        r = tl.fma(a, b, a)
    else:
        r = tl.clamp(a, -0.5, 0.5)
    tl.store(out + i, r)


@triton.jit
def convert(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(out.dtype.element_ty))


@triton.jit
def through_fp32(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.exp(tl.load(x + i).to(tl.float32)).to(tl.bfloat16))


@triton.jit
def reduce_all(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.sum(v, axis=0))
    tl.store(out + 1, tl.max(v, axis=0))
    tl.store(out + 2, tl.min(v, axis=0))


@triton.jit
def scan_all(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.cumsum(tl.load(x + i), axis=0))


@triton.jit
def index_of_max(x, out, N: tl.constexpr):
    tl.store(out, tl.argmax(tl.load(x + tl.arange(0, N)), axis=0))


@triton.jit
def constant(out, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), tl.full((N,), 1.2001953, tl.bfloat16))


@triton.jit
def accumulate(total, x, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.atomic_add(total + i, tl.load(x + i))


@triton.jit
def product(a, b, c, N: tl.constexpr, PRECISION: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    d = tl.dot(tl.load(a + i * N + j), tl.load(b + i * N + j), input_precision=PRECISION)
    tl.store(c + i * N + j, d.to(c.dtype.element_ty))


def _two(n=256):
    torch.manual_seed(7)
    return torch.randn(n).bfloat16(), torch.randn(n).bfloat16()


EXPECTED = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: (a.float() / b.float()).bfloat16(),
    "max": torch.maximum,
    "neg": lambda a, b: -a,
    "abs": lambda a, b: a.abs(),
    "less": lambda a, b: (a < b).bfloat16(),
    "where": torch.maximum,
    "scale": lambda a, b: a * 1.5 + 0.25,
    "fma": lambda a, b: (a.double() * b.double() + a.double()).float().bfloat16(),
    "clamp": lambda a, b: a.clamp(-0.5, 0.5),
}


def check_arithmetic_rounds_like_torch(adapter):
    a, b = _two()
    for op, expected in EXPECTED.items():
        out = torch.empty_like(a)
        arithmetic[(1,)](a, b, out, N=256, OP=op)
        assert torch.equal(out, expected(a, b)), op


def check_casts_round_to_nearest_even_in_every_direction(adapter):
    ties = torch.tensor([1 + 2**-8, 1 + 3 * 2**-8, -1 - 2**-8, 65504.0, 1e-40, float("inf"), float("nan"), 3.0])
    random = torch.cat([ties, torch.randn(248)])
    types = (torch.bfloat16, torch.float16, torch.float32, torch.int32)
    for source in types:
        for target in types:
            if torch.int32 in (source, target):
                random = torch.nan_to_num(random, nan=3, posinf=4).clamp(-1000, 1000)
            x, out = random.to(source), torch.empty(256, dtype=target)
            convert[(1,)](x, out, N=256)
            assert torch.equal(torch.nan_to_num(out.float()), torch.nan_to_num(x.to(target).float())), (source, target)


def check_math_in_fp32_and_back(adapter):
    a, _ = _two()
    out = torch.empty_like(a)
    through_fp32[(1,)](a, out, N=256)
    assert (out.float() - a.float().exp().bfloat16().float()).abs().max() <= 2**-8 * a.float().exp().max()


def check_reductions(adapter):
    a, _ = _two()
    out = torch.empty(3, dtype=torch.bfloat16)
    reduce_all[(1,)](a, out, N=256)
    assert torch.equal(out, torch.stack([a.float().sum().bfloat16(), a.max(), a.min()]))


def check_scans(adapter):
    a, _ = _two(64)
    out = torch.empty_like(a)
    scan_all[(1,)](a, out, N=64)
    assert (out.float() - a.float().cumsum(0)).abs().max() < 0.1


def check_argmax_finds_the_largest_of_mixed_signs(adapter):
    a, _ = _two()
    out = torch.empty(1, dtype=torch.int32)
    index_of_max[(1,)](a, out, N=256)
    assert int(out) == int(a.argmax())


def check_constants(adapter):
    out = torch.empty(16, dtype=torch.bfloat16)
    constant[(1,)](out, N=16)
    assert torch.equal(out, torch.full((16,), 1.2001953).bfloat16())


def check_atomic_add_rounds_after_each(adapter):
    total, x = torch.full((8,), 256.0).bfloat16(), torch.ones(8).bfloat16()
    for _ in range(3):
        accumulate[(1,)](total, x, N=8)
    assert total.tolist() == [256.0] * 8  # 257 is a tie, and 256 is even


def check_dot_of_halves_accumulates_in_fp32(adapter):
    torch.manual_seed(1)
    for dtype in (torch.bfloat16, torch.float16):
        a, b, c = torch.randn(32, 32).to(dtype), torch.randn(32, 32).to(dtype), torch.empty(32, 32)
        product[(1,)](a, b, c, N=32, PRECISION="tf32")
        assert torch.allclose(c, a.float() @ b.float(), atol=1e-5), dtype
        half = torch.empty(32, 32, dtype=dtype)
        product[(1,)](a, b, half, N=32, PRECISION="tf32")
        assert (half.float() - (a.float() @ b.float())).abs().max() < 0.07


def check_dot_of_fp32_is_tf32_unless_ieee_is_asked_for(adapter):
    torch.manual_seed(2)
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    errors = {}
    for precision in ("tf32", "tf32x3", "ieee"):
        c = torch.empty(64, 64)
        product[(1,)](a, b, c, N=64, PRECISION=precision)
        exact = a.double() @ b.double()
        errors[precision] = float((c - exact).abs().max() / exact.std())
    assert 1e-4 < errors["tf32"] < 5e-3
    assert errors["ieee"] < 1e-5
    assert errors["tf32x3"] < 1e-5


def check_tf32_cuts_the_low_bits_off(adapter):
    one = torch.full((16, 16), 1 + 2**-10 + 2**-11)  # the last bit is a tie: rounding would go up, hardware goes down
    c = torch.empty(16, 16)
    product[(1,)](one, torch.eye(16), c, N=16, PRECISION="tf32")
    assert torch.equal(c, torch.full((16, 16), 1 + 2**-10))


def check_int8_dot_is_exact(adapter):
    a = torch.randint(-128, 127, (32, 32), dtype=torch.int8)
    c = torch.empty(32, 32, dtype=torch.int32)
    product[(1,)](a, a, c, N=32, PRECISION="ieee")
    assert torch.equal(c, (a.int() @ a.int()))
