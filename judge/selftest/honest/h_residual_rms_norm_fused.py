# title: residual add and RMSNorm in one kernel
# problem: samples/residual_rms_norm
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def add_rms_norm(x_ptr, r_ptr, w_ptr, y_ptr, width, eps, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < width
    hidden = tl.load(x_ptr + pid * width + cols, mask=mask, other=0.0)
    hidden += tl.load(r_ptr + pid * width + cols, mask=mask, other=0.0)
    mean_square = tl.sum(hidden * hidden, axis=0) / width
    weight = tl.load(w_ptr + cols, mask=mask)
    tl.store(y_ptr + pid * width + cols, hidden * tl.rsqrt(mean_square + eps) * weight, mask=mask)


class ModelNew(torch.nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x, residual):
        y = torch.empty_like(x)
        tokens, width = x.shape
        add_rms_norm[(tokens,)](
            x, residual, self.weight, y, width, self.eps, BLOCK=triton.next_power_of_2(width), num_warps=4
        )
        return y
