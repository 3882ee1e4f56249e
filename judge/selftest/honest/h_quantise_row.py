# title: rows quantised with exactly rounded division and ties to even
# problem: quantise
# expect: pass
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def quantise_row(x, q, scale, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    step = tl.div_rn(tl.maximum(tl.max(tl.abs(v), 0), 1e-4), 127.0)
    tl.store(scale + row, step)
    tl.store(q + row * n + at, libdevice.rint(tl.div_rn(v, step)).to(tl.int8), mask=at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, n = x.shape
        q = torch.empty((rows, n), dtype=torch.int8, device=x.device)
        scale = torch.empty(rows, dtype=x.dtype, device=x.device)
        quantise_row[(rows,)](x, q, scale, n, BLOCK=triton.next_power_of_2(n))
        return q, scale
