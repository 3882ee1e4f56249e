# title: product left to the library, LayerNorm in place in a kernel
# problem: samples/linear_layer_norm
# expect: pass
import torch
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def layer_norm_inplace(y, w, b, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(y + row * n + at, mask=inside, other=0.0)
    mean = tl.sum(v, 0) / n
    v = tl.where(inside, v - mean, 0.0)
    v = v * tl.rsqrt(tl.sum(v * v, 0) / n + eps)
    tl.store(y + row * n + at, v * tl.load(w + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, width_in, width_out):
        super().__init__()
        self.linear = torch.nn.Linear(width_in, width_out, bias=False)
        self.norm = torch.nn.LayerNorm(width_out)

    def forward(self, x):
        y = F.linear(x, self.linear.weight)
        rows, n = y.shape
        layer_norm_inplace[(rows,)](
            y, self.norm.weight, self.norm.bias, n, self.norm.eps, BLOCK=triton.next_power_of_2(n)
        )
        return y
