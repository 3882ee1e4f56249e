# title: largest magnitudes by one kernel, scaling by another over flat memory
# problem: samples/absmax_scale
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def row_factor(x, factor, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = tl.zeros((BLOCK,), tl.float32)
    for start in tl.range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        best = tl.maximum(best, tl.abs(tl.load(x + row * n + at, mask=at < n, other=0.0)))
    tl.store(factor + row, 127.0 / (tl.max(best, 0) + 1e-6))


@triton.jit
def scale_flat(x, factor, y, total, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    tl.store(y + at, tl.load(x + at, mask=inside) * tl.load(factor + at // n, mask=inside), mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, n = x.shape
        y = torch.empty_like(x)
        factor = x.new_empty(rows)
        row_factor[(rows,)](x, factor, n, BLOCK=1024)
        scale_flat[(triton.cdiv(x.numel(), 1024),)](x, factor, y, x.numel(), n, BLOCK=1024)
        return y
