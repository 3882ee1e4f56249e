# title: dropout with torch's own mask, shift in a kernel
# problem: dropout
# expect: pass
import torch
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def add_shift(x, shift, y, total, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    value = tl.load(x + at, mask=inside) + tl.load(shift + at % columns, mask=inside)
    tl.store(y + at, value, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, columns, p):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.zeros(columns))
        self.p = p

    def forward(self, x):
        y = torch.empty_like(x)
        add_shift[(triton.cdiv(x.numel(), 1024),)](x, self.shift, y, x.numel(), x.shape[-1], BLOCK=1024)
        return F.dropout(y, self.p, training=True)
