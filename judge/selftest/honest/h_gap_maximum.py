# title: row maxima that hand a NaN on
# problem: gap_maximum
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def nan_aware_max(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    gaps = tl.sum((v != v).to(tl.int32), axis=0)
    best = tl.max(tl.where(v == v, v, -float("inf")), axis=0)
    tl.store(out + row, tl.where(gaps > 0, float("nan"), best))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = x.new_empty(rows)
        nan_aware_max[(rows,)](x, out, n, BLOCK=triton.next_power_of_2(n))
        return out
