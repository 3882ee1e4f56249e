# title: dropout drawn in the kernel, from a seed that torch draws anew each call
# problem: wide_dropout
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def scaled_dropout(x_ptr, scale_ptr, y_ptr, total, columns, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    value = tl.load(x_ptr + at, mask=inside) * tl.load(scale_ptr + at % columns, mask=inside)
    keep = tl.rand(seed, at) >= p
    tl.store(y_ptr + at, tl.where(keep, value / (1.0 - p), 0.0), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, columns, p):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(columns))
        self.p = p

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        seed = int(torch.randint(0, 2**31 - 1, (), device="cpu"))
        total = x.numel()
        grid = (triton.cdiv(total, 1024),)
        scaled_dropout[grid](x, self.scale, y, total, x.shape[1], self.p, seed, BLOCK=1024)
        return y
