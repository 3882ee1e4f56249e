# title: LayerNorm by Welford's merge as a custom reduction, GELU from libdevice's erf
# problem: samples/layer_norm_gelu
# expect: pass
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def merge(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    share = tl.where(n == 0.0, 0.0, n_b / n)
    delta = mean_b - mean_a
    return mean_a + delta * share, m2_a + m2_b + delta * delta * n_a * share, n


@triton.jit
def ln_gelu(x, w, b, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + row * n + at, mask=inside, other=0.0)
    mean, m2, count = tl.reduce((v, tl.zeros_like(v), inside.to(tl.float32)), 0, merge)
    h = (v - mean) * tl.rsqrt(m2 / count + eps)
    h = h * tl.load(w + at, mask=inside, other=0.0) + tl.load(b + at, mask=inside, other=0.0)
    tl.store(y + row * n + at, h * 0.5 * (1 + libdevice.erf(h / 1.4142135623730951)), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x):
        y = torch.empty_like(x)
        n = x.shape[-1]
        rows = x.numel() // n
        ln_gelu[(rows,)](
            x, self.norm.weight, self.norm.bias, y, n, self.norm.eps, BLOCK=triton.next_power_of_2(n), num_warps=4
        )
        return y
