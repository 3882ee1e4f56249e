# title: the same over tiles, booleans seen as bytes
# problem: threshold_mask
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def mask_tile(x, limit, keep, above, any_ptr, rows, cols, R: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    lim = tl.load(limit + r, mask=r < rows, other=0.0)
    seen = tl.zeros((R,), tl.int32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        ok = (r < rows)[:, None] & (c < cols)[None, :]
        at = r[:, None] * cols + c[None, :]
        hit = (tl.load(x + at, mask=ok, other=0.0) > lim[:, None]).to(tl.uint8) * tl.load(keep + at, mask=ok, other=0)
        tl.store(above + at, hit, mask=ok)
        seen = tl.maximum(seen, tl.max(hit.to(tl.int32), axis=1))
    tl.store(any_ptr + r, seen.to(tl.uint8), mask=r < rows)


class ModelNew(torch.nn.Module):
    def forward(self, x, limit, keep):
        rows, cols = x.shape
        above = torch.empty((rows, cols), dtype=torch.uint8, device=x.device)
        found = torch.empty((rows,), dtype=torch.uint8, device=x.device)
        mask_tile[(triton.cdiv(rows, 8),)](x, limit, keep.view(torch.uint8), above, found, rows, cols, R=8, BLOCK=128)
        return above.view(torch.bool), found.view(torch.bool)
