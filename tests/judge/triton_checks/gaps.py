"""One check for each gap of Triton's interpreter that the adapter closes, or says it cannot."""

import sys

import pytest
import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from triton.language.extra import libdevice

from judge.bench.interpreting import interpreter, python_inside
from judge.bench.interpreting.builder import Unsupported
from judge.bench.interpreting.kernel_code import UNKNOWN


@triton.jit
def unary(x, out, N: tl.constexpr, FN: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    if FN == "tanh":
        r = libdevice.tanh(v)
    elif FN == "erf":
        r = libdevice.erf(v)
    elif FN == "rsqrt":
        r = libdevice.rsqrt(tl.abs(v) + 1)
    elif FN == "pow":
        r = libdevice.pow(tl.abs(v), 1.5)
    elif FN == "exp":
        r = libdevice.exp(v)
    elif FN == "log1p":
        r = libdevice.log1p(tl.abs(v))
    elif FN == "isnan":
        r = tl.where(libdevice.isnan(v), 1.0, 0.0)
    elif FN == "extra":
        r = tl.extra.cuda.libdevice.tanh(v)
    else:
        r = tl.math.erf(v)
    tl.store(out + i, r)


@triton.jit
def add_up(x, out, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    tl.store(out, tl.sum(v, 0))
    tl.store(out + 1 + tl.arange(0, 2), tl.sum(tl.reshape(v, (N // 2, 2)), 0))


@triton.jit
def bessel_n(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, libdevice.jn(2, tl.load(x + i)))


@triton.jit
def assembly(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    r = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [v], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out + i, r)


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"], reset_to_zero=["out"])
@triton.jit
def tuned_accumulate(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"], warmup=5, rep=20)
@triton.jit
def tuned_timed(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"])})
@triton.jit
def guessed(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)


@triton.jit
def optional(x, bias, out, flag, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    if bias is not None:
        v += tl.load(bias + i)
    if flag:
        v = -v
    tl.store(out + i, v)


@triton.jit
def fails(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).no_such_method())


X = torch.linspace(-2, 2, 64)


def check_libdevice_functions(adapter):
    expected = {
        "tanh": X.tanh(), "erf": X.erf(), "rsqrt": (X.abs() + 1).rsqrt(), "pow": X.abs() ** 1.5, "exp": X.exp(),
        "log1p": X.abs().log1p(), "isnan": torch.zeros(64), "extra": X.tanh(), "builtin": X.erf(),
    }  # fmt: skip
    for name, value in expected.items():
        out = torch.empty(64)
        unary[(1,)](X, out, N=64, FN=name)
        assert torch.allclose(out, value, atol=1e-6), name


def check_unknown_libdevice_functions_say_so(adapter):
    with pytest.raises(Unsupported, match=r"libdevice\.jn"):
        bessel_n[(1,)](X, torch.empty(64), N=64)


def check_inline_assembly_says_so(adapter):
    with pytest.raises(Unsupported, match="inline assembly"):
        assembly[(1,)](X, torch.empty(64), N=64)


def check_autotuned_kernels_run_once(adapter):
    out = torch.zeros(100)
    adapter.reset()
    tuned_accumulate[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](torch.ones(100), out, 100)
    assert out.tolist() == [1.0] * 100
    assert adapter.report().launches == 1


@pytest.mark.filterwarnings("ignore")
def check_old_style_autotuning_needs_no_gpu(adapter):
    out = torch.zeros(64)
    tuned_timed[(1,)](X, out, 64)
    assert torch.equal(out, X)


def check_heuristics(adapter):
    out = torch.empty(50)
    guessed[(1,)](X, out, 50)
    assert torch.equal(out, X[:50] * 2)


def check_none_and_bool_arguments(adapter):
    out = torch.empty(64)
    optional[(1,)](X, None, out, True, N=64)
    assert torch.equal(out, -X)
    optional[(1,)](X, X, out, False, N=64)
    assert torch.equal(out, X + X)


def check_errors_inside_a_kernel_keep_their_own_type(adapter):
    with pytest.raises(AttributeError, match="no_such_method"):
        fails[(1,)](X, torch.empty(64), N=64)


def check_cuda_devices_are_remapped(adapter):
    x = torch.ones(4, device="cuda")
    assert x.is_cuda and x.device.type == "cuda" and x.get_device() == 0
    assert x.cuda() is x and x.to("cuda:0").sum() == 4
    for made in (torch.empty_like(x), x.new_zeros(3, device=x.device), torch.arange(3, device=torch.device("cuda", 0))):
        assert made.is_cuda and made.untyped_storage().device.type == "cpu"
    module = torch.nn.Linear(4, 2, device="cuda").to("cuda").cuda()
    assert module(x).shape == (2,) and module.weight.is_cuda


def check_torch_cuda_answers_for_the_target(adapter):
    assert torch.cuda.is_available() and torch.cuda.current_device() == 0
    assert torch.cuda.get_device_capability() == (9, 0)
    assert torch.cuda.get_device_properties(0).multi_processor_count == 132
    with torch.cuda.device(0), torch.cuda.stream(torch.cuda.current_stream()):
        torch.cuda.synchronize()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    end.record()
    assert start.elapsed_time(end) == 1.0
    assert triton.runtime.driver.active.utils.get_device_properties(0)["multiprocessor_count"] == 132


def check_autocast_for_cuda_uses_half_precision(adapter):
    with torch.autocast("cuda"):
        assert F.linear(torch.ones(2, 2), torch.ones(2, 2)).dtype == torch.float16


def check_default_device_and_random_state(adapter):
    with torch.device("cuda"):
        assert torch.zeros(2).is_cuda
    torch.cuda.manual_seed(3)
    generator = torch.Generator(device="cuda")
    assert torch.rand(2, generator=generator.manual_seed(1), device="cuda").shape == (2,)


def check_registers_of_an_interpreted_kernel_are_refused(adapter):
    compiled = guessed.fn.warmup(X, X, 50, BLOCK=64, grid=(1,))
    with pytest.raises(Unsupported, match="compiles nothing"):
        compiled._init_handles()


def check_versions_are_named(adapter):
    assert interpreter.supported()[0]
    fits, reason = interpreter.supported("3.8.0")
    assert not fits and "3.8.0" in reason and "3.7.1" in reason


def check_sums_of_integers_wrap_around(adapter):
    for dtype in (torch.int32, torch.int64):
        x, out = torch.full((64,), torch.iinfo(dtype).max // 3, dtype=dtype), torch.zeros(3, dtype=dtype)
        add_up[(1,)](x, out, N=64)
        assert torch.equal(out, torch.stack([x.sum(dtype=dtype), *x.view(32, 2).sum(0, dtype=dtype)]))


def check_the_code_of_a_launch_follows_text_constants_and_kinds_of_arguments(adapter):
    codes = []
    for kernel, args, constants in (
        (guessed.fn, (X, X.clone(), 50), {"BLOCK": 64}), (guessed.fn, (X, X.clone(), 60), {"BLOCK": 64}),
        (guessed.fn, (X, X.clone(), 1), {"BLOCK": 64}), (guessed.fn, (X.half(), X.half(), 60), {"BLOCK": 64}),
        (guessed.fn, (X, X.clone(), 60), {"BLOCK": 32}), (optional, (X, X, X.clone(), True), {"N": 64}),
        (optional, (X, None, X.clone(), True), {"N": 64}),
    ):  # fmt: skip
        adapter.take_codes()
        kernel[(1,)](*args, **constants)
        codes += adapter.take_codes()
    assert codes[0] == codes[1] and len(set(codes)) == 6 and UNKNOWN not in codes


def check_a_function_put_in_place_of_a_kernel_has_no_code(adapter):
    def other(x, out, n, BLOCK):
        pass

    adapter.take_codes()
    made = triton.jit(guessed.fn.fn)
    type(made).rewritten_fn[made.fn] = other
    made[(1,)](X, X, 1, BLOCK=64)
    del type(made).rewritten_fn[made.fn]
    assert list(adapter.take_codes()) == [UNKNOWN]


def aside(v):
    v.handle.data = torch.from_numpy(v.handle.data).exp().numpy()
    return v


@triton.constexpr_function
def halved(n):
    return n // 2


@triton.jit
def doubled(v):
    return v + v


@triton.jit
def combined(a, b):
    return a * 0.5 + b


@triton.jit
def honest(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    for _ in tl.static_range(halved(4)):
        v = doubled(tl.exp(libdevice.tanh(v)) + tl.sum(tl.cumsum(tl.sort(v), 0), 0) + tl.max(v, 0))
        v = tl.associative_scan(v, 0, combined)
    tl.store(out + i, tl.dot(v[:, None] * v[None, :], v[:, None] * v[None, :]).sum(0).to(tl.bfloat16))


@triton.jit
def leaves_it_to_torch(x, out, N: tl.constexpr, FN: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, FN(tl.load(x + i)))


def check_what_no_compiler_could_have_compiled_is_seen_inside_a_kernel(adapter):
    found: list[str] = []
    with python_inside.watching(found, []):
        honest[lambda meta: (1,)](X, X.clone(), N=64)
    assert found == []
    with python_inside.watching(found, []):
        leaves_it_to_torch[(1,)](X, X.clone(), N=64, FN=aside)
    assert found[:2] == ["aside", "torch.from_numpy"] and "torch.exp" in found
    assert sys.getprofile() is None


def check_what_is_called_during_a_launch_beside_the_kernel_is_told(adapter):
    beside: list[str] = []
    with python_inside.watching([], beside):
        honest[(1,)](X, X.clone(), N=64)
    assert beside == []
    honest.add_pre_run_hook(hook)
    try:
        with python_inside.watching([], beside):
            honest[(1,)](X, X.clone(), N=64)
    finally:
        honest.pre_run_hooks.clear()
    assert beside == ["hook"]


def hook(*args, **kwargs):
    """What a candidate may have run before its kernel."""


def check_who_looks_inside_is_not_to_be_sent_away(adapter):
    found: list[str] = []
    with python_inside.watching(found, []):
        sys.setprofile(None)
    assert found == ["sys.setprofile"]
