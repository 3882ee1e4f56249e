# title: linear layer from operands split into three bfloat16 parts, six products
# problem: linear
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def first(x):
    return x.to(tl.bfloat16)


@triton.jit
def rest(x, part):
    return x - part.to(tl.float32)


@triton.jit
def linear(x, w, b, y, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, cols = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N)
    acc = tl.zeros((M, N), dtype=tl.float32)
    small = tl.zeros((M, N), dtype=tl.float32)
    for start in range(0, k, K):
        at = start + tl.arange(0, K)
        left = tl.load(x + rows[:, None] * k + at[None, :], mask=(rows[:, None] < m) & (at[None, :] < k), other=0.0)
        right = tl.load(w + cols[None, :] * k + at[:, None], mask=(cols[None, :] < n) & (at[:, None] < k), other=0.0)
        a0 = first(left)
        left = rest(left, a0)
        a1 = first(left)
        a2 = first(rest(left, a1))
        b0 = first(right)
        right = rest(right, b0)
        b1 = first(right)
        b2 = first(rest(right, b1))
        small = tl.dot(a2, b0, small)
        small = tl.dot(a1, b1, small)
        small = tl.dot(a0, b2, small)
        small = tl.dot(a1, b0, small)
        small = tl.dot(a0, b1, small)
        acc = tl.dot(a0, b0, acc)
    acc += small
    acc += tl.load(b + cols, mask=cols < n, other=0.0)[None, :]
    tl.store(y + rows[:, None] * n + cols[None, :], acc, mask=(rows[:, None] < m) & (cols[None, :] < n))


class ModelNew(torch.nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(outer, inner))
        self.bias = torch.nn.Parameter(torch.randn(outer))

    def forward(self, x):
        x = x.contiguous()
        (m, k), n = x.shape, self.weight.shape[0]
        y = torch.empty((m, n), device=x.device)
        grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
        linear[grid](x, self.weight, self.bias, y, m, n, k, M=32, N=32, K=32)
        return y
