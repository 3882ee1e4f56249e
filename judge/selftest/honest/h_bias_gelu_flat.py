# title: bias, tanh GELU and scale over flat memory
# problem: samples/bias_gelu_scale
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def bias_gelu_scale(x_ptr, bias_ptr, y_ptr, total, columns, scale, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < total
    h = tl.load(x_ptr + offsets, mask=mask) + tl.load(bias_ptr + offsets % columns, mask=mask)
    inner = 0.7978845608028654 * (h + 0.044715 * h * h * h)
    y = 0.5 * h * (1.0 + tanh(inner)) * scale
    tl.store(y_ptr + offsets, y, mask=mask)


class ModelNew(torch.nn.Module):
    def __init__(self, columns, scale):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(columns))
        self.scale = scale

    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        total = x.numel()
        bias_gelu_scale[(triton.cdiv(total, 1024),)](x, self.bias, y, total, x.shape[-1], self.scale, BLOCK=1024)
        return y
