# title: dropout drawn in the kernel from a seed that torch draws anew each call
# problem: dropout
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def shift_dropout(x_ptr, shift_ptr, y_ptr, total, columns, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < total
    value = tl.load(x_ptr + offsets, mask=mask) + tl.load(shift_ptr + offsets % columns, mask=mask)
    keep = tl.rand(seed, offsets) >= p
    tl.store(y_ptr + offsets, tl.where(keep, value / (1.0 - p), 0.0), mask=mask)


class ModelNew(torch.nn.Module):
    def __init__(self, columns, p):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.randn(columns))
        self.p = p

    def forward(self, x):
        y = torch.empty_like(x)
        seed = int(torch.randint(0, 2**31 - 1, (), device="cpu"))
        total = x.numel()
        shift_dropout[(triton.cdiv(total, 1024),)](x, self.shift, y, total, x.shape[1], self.p, seed, BLOCK=1024)
        return y
