# title: the same strided view as the reference returns
# problem: permuted_output
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def scale_columns(x, s, y, total, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    tl.store(y + at, tl.load(x + at, mask=inside) * tl.load(s + at % n, mask=inside), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads, self.width = heads, width
        self.scale = torch.nn.Parameter(torch.empty(heads * width))

    def forward(self, x):
        y = torch.empty_like(x)
        scale_columns[(triton.cdiv(x.numel(), 512),)](x, self.scale, y, x.numel(), x.shape[-1], BLOCK=512)
        return y.view(*x.shape[:2], self.heads, self.width).transpose(1, 2)
