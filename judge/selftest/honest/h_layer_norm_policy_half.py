# title: LayerNorm and GELU judged in fp16 by the policy, computed in fp32
# problem: samples/layer_norm_gelu
# policy: {"dtype": "float16"}
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def ln_gelu_half(x, w, b, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + row * n + at, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / n
    d = tl.where(inside, v - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(d * d, 0) / n + eps)
    h = d * rstd * tl.load(w + at, mask=inside).to(tl.float32) + tl.load(b + at, mask=inside).to(tl.float32)
    out = 0.5 * h * (1.0 + tl.erf(h * 0.70710678))
    tl.store(y + row * n + at, out.to(y.dtype.element_ty), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x):
        y = torch.empty_like(x)
        n = x.shape[-1]
        ln_gelu_half[(x.numel() // n,)](
            x, self.norm.weight, self.norm.bias, y, n, self.norm.eps, BLOCK=triton.next_power_of_2(n), num_warps=4
        )
        return y
