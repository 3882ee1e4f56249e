# title: softplus and row sums in fp64
# problem: double_softplus
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def softplus64(x, shift, y, total, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + at, mask=at < n, other=0.0) + tl.load(shift + at, mask=at < n, other=0.0)
        # torch returns its argument above 20
        out = tl.where(v > 20.0, v, tl.log(1.0 + tl.exp(tl.minimum(v, 20.0))))
        tl.store(y + row * n + at, out, mask=at < n)
        acc += tl.where(at < n, out, 0.0)
    tl.store(total + row, tl.sum(acc, 0))


class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.zeros(columns, dtype=torch.float64))

    def forward(self, x):
        y = torch.empty_like(x)
        total = x.new_empty(x.shape[0])
        softplus64[(x.shape[0],)](x, self.shift, y, total, x.shape[1], BLOCK=128)
        return y, total
