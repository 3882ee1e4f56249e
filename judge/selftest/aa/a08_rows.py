# title: a row kernel of 67 MB against itself
# problem: row_scale
# case: gpu
# devices: cuda
# incumbent: self
# comparisons: 21
# audit: no
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x, w, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    v = v * tl.rsqrt(tl.sum(v * v, 0) / n + eps) * tl.load(w + at, mask=at < n, other=0.0)
    tl.store(y + row * n + at, v, mask=at < n)


class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(columns))

    def forward(self, x):
        y = torch.empty_like(x)
        n = x.shape[1]
        scale[(x.shape[0],)](x, self.weight, y, n, 1e-5, BLOCK=triton.next_power_of_2(n))
        return y
