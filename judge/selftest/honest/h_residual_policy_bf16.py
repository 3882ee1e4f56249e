# title: residual add and RMSNorm judged in bfloat16 by the policy, sum kept in fp32
# problem: samples/residual_rms_norm
# policy: {"dtype": "bfloat16"}
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def add_rms_norm_bf16(x, r, w, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    h = tl.load(x + row * n + at, mask=inside, other=0.0).to(tl.float32)
    h += tl.load(r + row * n + at, mask=inside, other=0.0).to(tl.float32)
    h = h * tl.rsqrt(tl.sum(h * h, 0) / n + eps) * tl.load(w + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * n + at, h.to(tl.bfloat16), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x, residual):
        y = torch.empty_like(x)
        add_rms_norm_bf16[(x.shape[0],)](
            x, residual, self.weight, y, x.shape[1], self.eps, BLOCK=triton.next_power_of_2(x.shape[1])
        )
        return y
