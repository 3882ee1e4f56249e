# title: floor division built from C's truncating one
# problem: floor_division
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def floor_divmod(x_ptr, step_ptr, q_ptr, r_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask, other=0)
    step = tl.load(step_ptr + i, mask=mask, other=1)
    q = x // step  # truncates towards zero on integers
    r = x - q * step
    below = (r != 0) & ((r < 0) != (step < 0))
    tl.store(q_ptr + i, tl.where(below, q - 1, q), mask=mask)
    tl.store(r_ptr + i, tl.where(below, r + step, r), mask=mask)


class ModelNew(torch.nn.Module):
    def forward(self, x, step):
        q, r = torch.empty_like(x), torch.empty_like(x)
        floor_divmod[(triton.cdiv(x.numel(), 1024),)](x, step, q, r, x.numel(), BLOCK=1024)
        return q, r
