# title: gated SiLU with the reciprocal in inline assembly, refined by a Newton step
# problem: samples/swiglu
# devices: cuda
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def fast_reciprocal(x):
    guess = tl.inline_asm_elementwise("rcp.approx.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1)
    return guess * (2.0 - x * guess)


@triton.jit
def swiglu_asm(gate, up, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(gate + at, mask=at < n, other=0.0)
    u = tl.load(up + at, mask=at < n, other=0.0)
    # the argument is bounded, so that the step never meets an infinity
    silu = g * fast_reciprocal(1.0 + tl.exp(tl.minimum(-g, 60.0)))
    tl.store(out + at, silu * u, mask=at < n)


class ModelNew(torch.nn.Module):
    def forward(self, gate, up):
        out = torch.empty_like(gate)
        n = gate.numel()
        swiglu_asm[(triton.cdiv(n, 1024),)](gate, up, out, n, BLOCK=1024)
        return out
