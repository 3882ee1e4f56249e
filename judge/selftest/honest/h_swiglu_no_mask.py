# title: gated SiLU that drops its mask when the size is a multiple of the block
# problem: samples/swiglu
# expect: pass
import torch
import triton
import triton.language as tl


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def swiglu_even(gate, up, out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        g = tl.load(gate + at)
        u = tl.load(up + at)
        tl.store(out + at, g * tl.sigmoid(g) * u)
    else:
        inside = at < n
        g = tl.load(gate + at, mask=inside)
        u = tl.load(up + at, mask=inside)
        tl.store(out + at, g * tl.sigmoid(g) * u, mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, gate, up):
        out = torch.empty_like(gate)
        n = gate.numel()
        swiglu_even[(triton.cdiv(n, 512),)](gate, up, out, n, BLOCK=512)
        return out
