# title: comparison and row-wise any on booleans
# problem: threshold_mask
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def above_limit(x, limit, keep, above, found, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + row * n + at, mask=inside, other=-float("inf"))
    kept = tl.load(keep + row * n + at, mask=inside, other=0) != 0
    hit = (v > tl.load(limit + row)) & kept
    tl.store(above + row * n + at, hit, mask=inside)
    tl.store(found + row, tl.max(hit.to(tl.int32), axis=0) > 0)


class ModelNew(torch.nn.Module):
    def forward(self, x, limit, keep):
        rows, n = x.shape
        above = torch.empty((rows, n), dtype=torch.bool, device=x.device)
        found = torch.empty(rows, dtype=torch.bool, device=x.device)
        above_limit[(rows,)](x, limit, keep, above, found, n, BLOCK=triton.next_power_of_2(n))
        return above, found
