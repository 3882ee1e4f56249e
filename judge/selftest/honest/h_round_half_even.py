# title: rounding with ties to even, without a library function
# problem: round_half
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def round_half_even(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0)
    low = tl.floor(v)
    rest = v - low
    whole = low.to(tl.int32)
    odd = (whole & 1) != 0
    up = (rest > 0.5) | ((rest == 0.5) & odd)
    tl.store(out + at, whole + up.to(tl.int32), mask=at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape, dtype=torch.int32, device=x.device)
        n = x.numel()
        round_half_even[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
