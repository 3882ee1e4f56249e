# title: loss summed by few striding programs and one atomic addition each
# problem: smooth_l1
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def smooth_l1(x_ptr, t_ptr, out_ptr, n, beta, inv_n, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, n, step):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < n
        diff = tl.abs(tl.load(x_ptr + offs, mask=mask, other=0.0) - tl.load(t_ptr + offs, mask=mask, other=0.0))
        acc += tl.where(diff < beta, diff * diff * (0.5 / beta), diff - 0.5 * beta)
    tl.atomic_add(out_ptr, tl.sum(acc, axis=0) * inv_n)


class ModelNew(torch.nn.Module):
    def forward(self, x, target):
        out = torch.zeros((), device=x.device, dtype=x.dtype)
        n = x.numel()
        programs = min(264, triton.cdiv(n, 2048))
        smooth_l1[(programs,)](x, target, out, n, 0.7, 1.0 / n, BLOCK=512)
        return out
