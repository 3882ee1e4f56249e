# title: rows to unit length, several rows a program
# problem: unit_rows
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def normalise_rows(x, y, rows, n, eps, R: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    c = tl.arange(0, BLOCK)[None, :]
    inside = (r < rows) & (c < n)
    v = tl.load(x + r * n + c, mask=inside, other=0.0)
    length = tl.sqrt(tl.sum(v * v, axis=1, keep_dims=True))
    tl.store(y + r * n + c, v / tl.maximum(length, eps), mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, n = x.shape
        y = torch.empty_like(x)
        normalise_rows[(triton.cdiv(rows, 8),)](x, y, rows, n, 1e-3, R=8, BLOCK=triton.next_power_of_2(n))
        return y
