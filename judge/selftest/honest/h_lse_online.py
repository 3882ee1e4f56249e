# title: log-sum-exp in one sweep with a running maximum per lane
# problem: samples/log_sum_exp
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def lse_kernel(x_ptr, out_ptr, n, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, BLOCK)
    peak = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        v = tl.load(x_ptr + row * n + start + lane, mask=start + lane < n, other=-float("inf")) * scale
        higher = tl.maximum(peak, v)
        # lanes that have seen nothing yet hold -inf twice: their difference would be NaN
        total = tl.where(higher == -float("inf"), 0.0, total * tl.exp(peak - higher) + tl.exp(v - higher))
        peak = higher
    top = tl.max(peak, axis=0)
    combined = tl.sum(total * tl.exp(peak - top), axis=0)
    tl.store(out_ptr + row, top + tl.log(combined))


class ModelNew(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        out = torch.empty(x.shape[:-1], device=x.device, dtype=x.dtype)
        lse_kernel[(out.numel(),)](x, out, x.shape[-1], self.scale, BLOCK=512)
        return out
