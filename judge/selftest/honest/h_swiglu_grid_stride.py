# title: gated SiLU by a fixed number of programs that stride over memory
# problem: samples/swiglu
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def silu(x):
    return x / (1.0 + tl.exp2(x * -1.4426950408889634))


@triton.jit
def swiglu_strided(gate, up, out, n, BLOCK: tl.constexpr):
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, n, step):
        at = start + tl.arange(0, BLOCK)
        g = tl.load(gate + at, mask=at < n, other=0.0)
        u = tl.load(up + at, mask=at < n, other=0.0)
        tl.store(out + at, silu(g) * u, mask=at < n)


class ModelNew(torch.nn.Module):
    BLOCK = 1024
    PROGRAMS = 264

    def forward(self, gate, up):
        out = torch.empty_like(up)
        # each program strides at least a few times
        programs = max(1, min(self.PROGRAMS, out.numel() // (3 * self.BLOCK)))
        swiglu_strided[(programs,)](gate, up, out, out.numel(), BLOCK=self.BLOCK, num_warps=8)
        return out
