# title: a gate of 16 Ki elements against itself
# size: 5 us
# problem: gate
# case: 16k
# devices: cuda
# incumbent: self
# comparisons: 21
# audit: no
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def gate(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(out + at, tl.sigmoid(value) * tl.load(y + at, mask=at < n), mask=at < n)


class ModelNew(torch.nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        gate[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
        return out
