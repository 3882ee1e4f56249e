# title: bias, tanh GELU and scale with a short list of configurations
# problem: samples/bias_gelu_scale
# expect: pass
import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": 512}, num_warps=4),
        triton.Config({"BLOCK": 1024}, num_warps=4),
        triton.Config({"BLOCK": 2048}, num_warps=8),
    ],
    key=["total"],
)
@triton.jit
def fused(x_ptr, b_ptr, y_ptr, total, columns, scale, BLOCK: tl.constexpr):
    pid = tl.program_id(axis=0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < total
    h = tl.load(x_ptr + offs, mask=mask, other=0.0)
    h += tl.load(b_ptr + offs % columns, mask=mask, other=0.0)
    # tanh through exp of a value that is never positive, so that nothing overflows
    u = 0.7978845608028654 * (h + 0.044715 * h * h * h)
    e = tl.exp(-2.0 * tl.abs(u))
    t = (1.0 - e) / (1.0 + e)
    t = tl.where(u < 0, -t, t)
    tl.store(y_ptr + offs, h * 0.5 * (1.0 + t) * scale, mask=mask)


class ModelNew(torch.nn.Module):
    def __init__(self, columns, scale):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(columns))
        self.scale = scale

    def forward(self, x):
        y = torch.empty_like(x)
        total = x.numel()
        grid = lambda meta: (triton.cdiv(total, meta["BLOCK"]),)  # noqa: E731
        fused[grid](x, self.bias, y, total, x.shape[1], self.scale)
        return y
