# title: GELU with a bias as a torch.autograd.Function, backward in two kernels
# problem: bias_gelu
# policy: {"gradients": "all", "library": "refuse"}
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def gelu_rows(x, b, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    z = tl.load(x + at + c, mask=c < n, other=0.0) + tl.load(b + c, mask=c < n, other=0.0)
    tl.store(y + at + c, 0.5 * z * (1.0 + tl.erf(z * 0.7071067811865476)), mask=c < n)


@triton.jit
def gelu_rows_backward(x, b, g, dx, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * n
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    z = tl.load(x + at + c, mask=c < n, other=0.0) + tl.load(b + c, mask=c < n, other=0.0)
    slope = 0.5 * (1.0 + tl.erf(z * 0.7071067811865476)) + z * tl.exp(-0.5 * z * z) * 0.3989422804014327
    tl.store(dx + at + c, tl.load(g + at + c, mask=c < n, other=0.0) * slope, mask=c < n)


@triton.jit
def add_rows(dx, db, rows, n, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for row in range(rows):
        total += tl.load(dx + row * n + c, mask=c < n, other=0.0)
    tl.store(db + c, total, mask=c < n)


class BiasGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, b):
        x = x.contiguous()
        rows, n = x.shape
        y = torch.empty_like(x)
        gelu_rows[(rows, triton.cdiv(n, 512))](x, b, y, n, BLOCK=512)
        ctx.save_for_backward(x, b)
        return y

    @staticmethod
    def backward(ctx, g):
        x, b = ctx.saved_tensors
        rows, n = x.shape
        g = g.contiguous()
        dx, db = torch.empty_like(x), torch.empty_like(b)
        gelu_rows_backward[(rows, triton.cdiv(n, 512))](x, b, g, dx, n, BLOCK=512)
        add_rows[(triton.cdiv(n, 32),)](dx, db, rows, n, BLOCK=32, num_warps=1)
        return dx, db


class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.empty(columns))

    def forward(self, x):
        return BiasGelu.apply(x, self.bias)
