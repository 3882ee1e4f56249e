# title: softmax with its own backward from the saved output
# problem: softmax
# policy: {"gradients": "inputs"}
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_row(x, y, n, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    at = tl.program_id(0) * n + c
    v = tl.load(x + at, mask=c < n, other=float("-inf"))
    e = tl.exp(v - tl.max(v))
    tl.store(y + at, e / tl.sum(e), mask=c < n)


@triton.jit
def softmax_row_backward(y, g, dx, n, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    at = tl.program_id(0) * n + c
    out = tl.load(y + at, mask=c < n, other=0.0)
    given = tl.load(g + at, mask=c < n, other=0.0)
    total = tl.sum(out * given)
    tl.store(dx + at, out * (given - total), mask=c < n)


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        n = x.shape[-1]
        softmax_row[(x.numel() // n,)](x, y, n, BLOCK=triton.next_power_of_2(n))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        n, g = y.shape[-1], g.contiguous()
        dx = torch.empty_like(y)
        softmax_row_backward[(y.numel() // n,)](y, g, dx, n, BLOCK=triton.next_power_of_2(n))
        return dx


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return Softmax.apply(x)
