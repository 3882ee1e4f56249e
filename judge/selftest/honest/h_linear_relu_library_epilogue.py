# title: product left to the library, bias, ReLU and scale in a kernel
# problem: samples/linear_relu_scale
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def epilogue(y, bias, total, columns, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    v = tl.load(y + at, mask=inside) + tl.load(bias + at % columns, mask=inside)
    tl.store(y + at, tl.where(v > 0, v, 0.0) * scale, mask=inside)


class ModelNew(torch.nn.Module):
    """torch.mm writes the product, the kernel works on that tensor in place."""

    def __init__(self, width_in, width_out, scale):
        super().__init__()
        self.linear = torch.nn.Linear(width_in, width_out)
        self.scale = scale

    def forward(self, x):
        y = torch.mm(x, self.linear.weight.t())
        epilogue[(triton.cdiv(y.numel(), 1024),)](y, self.linear.bias, y.numel(), y.shape[1], self.scale, BLOCK=1024)
        return y
