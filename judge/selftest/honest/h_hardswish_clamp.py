# title: residual mix, clamp and hardswish
# problem: samples/residual_hardswish
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def mix_hardswish(x_ptr, r_ptr, y_ptr, n, alpha, beta, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < n
    mixed = alpha * tl.load(x_ptr + i, mask=ok) + beta * tl.load(r_ptr + i, mask=ok)
    mixed = tl.clamp(mixed, -4.0, 4.0)
    gate = tl.minimum(tl.maximum(mixed + 3.0, 0.0), 6.0)
    tl.store(y_ptr + i, mixed * gate / 6.0, mask=ok)


class ModelNew(torch.nn.Module):
    def __init__(self, alpha, beta):
        super().__init__()
        self.alpha, self.beta = alpha, beta

    def forward(self, x, residual):
        y = torch.empty_like(x)
        n = x.numel()
        mix_hardswish[(triton.cdiv(n, 1024),)](x, residual, y, n, self.alpha, self.beta, BLOCK=1024)
        return y
