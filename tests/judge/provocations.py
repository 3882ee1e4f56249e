"""For each known error a module, a reply or an exact text that provokes it.

`compile` and `interpret`: kernels whose launch is compiled for a GPU or run on the processor, in one child for all of a
kind; `judge`: modules that the whole judge judges; `text`: what only a GPU's driver, another version of Triton, another
machine or a lost worker says, in its exact words, with the reason code.
"""

from __future__ import annotations

KERNEL = """import torch, triton, triton.language as tl

SCALE = 2.0

@triton.jit
def k(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
%s

class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        %s
        return out
"""
TUNED = """import torch, triton, triton.language as tl

%s
def k(x, out, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i))

class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        %s
        return out
"""
TUNE = '@triton.autotune([triton.Config({"N": 64}%s), triton.Config({"N": 32})], key=["n"])'


def kernel(body: str, launch: str = "k[(1,)](x, out, 64, N=64)") -> str:
    """A module whose kernel has these lines after `i`, a range of 64."""
    return KERNEL % ("\n".join(f"    {line}" for line in body.splitlines()), launch)


def launched(launch: str) -> str:
    """A module whose kernel is right and launched so."""
    return kernel("tl.store(out + i, tl.load(x + i))", launch)


def block(use: str) -> str:
    """A kernel that uses `v`, a block of 64 numbers."""
    return kernel(f"v = tl.load(x + i)\n{use}")


def square(use: str) -> str:
    """A kernel that uses `a`, a block of 64 by 64, with `at` as its places."""
    return kernel(f"at = i[:, None] * N + i[None, :]\na = tl.load(x + at)\n{use}")


COMPILE = {
    "tl-missing": kernel("tl.store(out + i, tl.constant(1.0, tl.float32))"),
    "tensor-power": block("tl.store(out + i, v ** 2)"),
    "tensor-product": square("tl.store(out + at, a @ a)"),
    "tensor-index": block("tl.store(out + i, v[0])"),
    "tensor-attribute": kernel("tl.store(out + i, tl.load(x + i * x.stride(0)))"),
    "dtype-called": block("tl.store(out + i, tl.float32(v))"),
    "dtype-not-triton": block("tl.store(out + i, v.to(torch.float32))"),
    "builtin-in-kernel": block("tl.store(out + i, sum(v))"),
    "global-in-kernel": block("tl.store(out + i, v * SCALE)"),
    "name-undefined": kernel("if n > 3:\n    v = tl.load(x + i)\ntl.store(out + i, v)"),
    "loop-exit": kernel("for j in range(0, 10):\n    if j > 3:\n        break\n    tl.store(out + i, j)"),
    "comprehension": kernel("v = [tl.load(x + i) for _ in range(4)]\ntl.store(out + i, v[0])"),
    "lambda-in-kernel": block("tl.store(out + i, tl.reduce(v, 0, lambda a, b: a + b))"),
    "host-syntax": block("try:\n    tl.store(out + i, v)\nexcept ValueError:\n    pass"),
    "syntax-unsupported": block("match n:\n    case _:\n        tl.store(out + i, v)"),
    "chained-comparison": kernel("m = 0 <= i < n\ntl.store(out + i, 0.0, mask=m)"),
    "branch-on-block": block("if v > 0:\n    tl.store(out + i, v)"),
    "return-in-loop": block("for j in range(0, 4):\n    return\ntl.store(out + i, v)"),
    "loop-carried-type": block("acc = 0\nfor _ in range(0, 10):\n    acc = acc + v\ntl.store(out + i, acc)"),
    "loop-carried-none": block("acc = None\nfor _ in range(0, 3):\n    acc = v\ntl.store(out + i, acc)"),
    "branch-types": kernel("if n > 3:\n    v = tl.load(x + i)\nelse:\n    v = 1\ntl.store(out + i, v)"),
    "number-of-tensor": block("tl.store(out + i, float(v))"),
    "length-of-tensor": block("tl.store(out + i, len(v))"),
    "loop-bounds": block("for j in range(v):\n    tl.store(out + i, 1.0)"),
    "not-jit": block("tl.store(out + i, torch.exp(v))"),
    "jit-outside": launched("k(x, out, 64, N=64)"),
    "builder-missing": block("tl.store(out + i, triton.cdiv(v, 2))"),
    "text-in-kernel": kernel("print(f'{n}')\ntl.store(out + i, 0.0)"),
    "attribute-assignment": block("v.other = 3\ntl.store(out + i, v)"),
    "arange-power-of-two": kernel("tl.store(out + tl.arange(0, 100), 0.0)"),
    "arange-constant": kernel("tl.store(out + tl.arange(0, n), 0.0)"),
    "shape-power-of-two": kernel("tl.store(out + i, tl.sum(tl.zeros((100,), tl.float32), 0))"),
    "shape-constant": kernel("tl.store(out + i, tl.zeros((n,), tl.float32))"),
    "block-too-large": kernel("tl.store(out + tl.arange(0, 2097152), 0.0)"),
    "block-shapes": kernel("tl.store(out + i, tl.load(x + i, mask=tl.arange(0, 32) < n))"),
    "axis-out-of-range": block("tl.store(out + i, tl.sum(v, axis=1))"),
    "reduce-arguments": block("tl.store(out + i, tl.max(v, 0.0))"),
    "reshape-elements": block("tl.store(out + i, tl.reshape(v, (N, 2)))"),
    "transpose-rank": block("tl.store(out + i, tl.trans(v))"),
    "dot-too-small": kernel(
        "j = tl.arange(0, 8)\na = tl.load(x + j[:, None] * N + j[None, :])\n"
        "tl.store(out + j[:, None] * N + j[None, :], tl.dot(a, a))"
    ),
    "dot-inner-extents": square("tl.store(out + at, tl.dot(a, tl.zeros((32, N), tl.float32)))"),
    "dot-ranks": block("tl.store(out + i, tl.dot(v, v))"),
    "dot-dtypes": square("tl.store(out + at, tl.dot(a, a.to(tl.float16)))"),
    "dot-dtype-unsupported": square("b = a.to(tl.int32)\ntl.store(out + at, tl.dot(b, b))"),
    "dot-precision": square("tl.store(out + at, tl.dot(a, a, input_precision='fp32'))"),
    "float-function-of-integers": kernel("tl.store(out + i, tl.exp(i))"),
    "operand-of-no-type": launched("k[(1,)](None, out, 64, N=64)"),
    "pointer-arithmetic": block("tl.store(out + i * 1.5, v)"),
    "pointers-added": kernel("tl.store(out + i, x + out)"),
    "bits-of-floats": block("tl.store(out + i, v & 1)"),
    "integer-operator-on-floats": block("tl.store(out + i, v // 2.0)"),
    "not-a-pointer": block("tl.store(out + i, tl.load(v))"),
    "block-through-scalar": block("tl.store(out, v)"),
    "other-without-mask": kernel("tl.store(out + i, tl.load(x + i, other=0.0))"),
    "block-pointer-mask": kernel(
        "p = tl.make_block_ptr(x, (n,), (1,), (0,), (N,), (0,))\ntl.store(out + i, tl.load(p, mask=i < n))"
    ),
    "atomic-dtype": kernel("tl.atomic_max(out.to(tl.pointer_type(tl.int8)) + i, 1)"),
    "cache-modifier": kernel("tl.store(out + i, tl.load(x + i, cache_modifier='.zz'))"),
    "program-id-axis": block("tl.store(out + i, v + tl.program_id(3))"),
    "launch-argument-missing": launched("k[(1,)](x, out, 64)"),
    "launch-argument-twice": launched("k[(1,)](x, out, 64, 64, N=64)"),
    "launch-argument-unknown": launched("k[(1,)](x, out, 64, N=64, BLOCK=3)"),
    "launch-argument-type": launched("k[(1,)]([1, 2], out, 64, N=64)"),
    "grid-not-a-tuple": launched("k[1](x, out, 64, N=64)"),
    "grid-not-whole": launched("k[((1, 2),)](x, out, 64, N=64)"),
    "grid-function": launched("k[lambda: (1,)](x, out, 64, N=64)"),
    "warps-power-of-two": launched("k[(1,)](x, out, 64, N=64, num_warps=3)"),
    "too-many-threads": launched("k[(1,)](x, out, 64, N=64, num_warps=64)"),
    "shared-memory": kernel(
        "j = tl.arange(0, 256)\nat = j[:, None] * 256 + j[None, :]\na = tl.load(x + at)\n"
        "tl.store(out + at, tl.dot(a, a, input_precision='ieee'))"
    ),
    "autotune-conflict": TUNED % (TUNE % "" + "\n@triton.jit", "k[(1,)](x, out, 64, N=64)"),
    "autotune-order": TUNED % ("@triton.jit\n" + TUNE % "", "k[(1,)](x, out, 64)"),
    "autotune-config": TUNED % (TUNE % ", warps=4" + "\n@triton.jit", "k[(1,)](x, out, 64)"),
    "keyword-unknown": kernel("tl.store(out + i, tl.load(x + i, msk=None))"),
    "argument-missing": kernel("tl.store(out + i)"),
    "triton-missing": "from triton.language import nothing_here\n" + launched("pass"),
}

INTERPRET = {
    # The same causes in other words, and what only the interpreter sees.
    "tl-missing": COMPILE["tl-missing"],
    "dtype-called": COMPILE["dtype-called"],
    "tensor-index": block("v[0] = 1.0\ntl.store(out + i, v)"),
    "tensor-power": COMPILE["tensor-power"],
    "builtin-in-kernel": block("tl.store(out + i, abs(v))"),
    "number-of-tensor": COMPILE["number-of-tensor"],
    "axis-out-of-range": COMPILE["axis-out-of-range"],
    "launch-argument-twice": COMPILE["launch-argument-twice"],
    "grid-not-whole": launched("k[(64 / 32,)](x, out, 64, N=64)"),
    "out-of-bounds": kernel("tl.store(out + i, tl.load(x + i * 4096))"),
    "device-unsupported": block(
        'tl.store(out + i, tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [v], dtype=tl.float32, is_pure=True, '
        "pack=1))"
    ),
}
