# title: mean square over millions of numbers, blocks added by atomics
# problem: mean_energy
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def energy(x, y, total, share, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < total, other=0.0)
    tl.atomic_add(y, tl.sum(value * value) * share)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        total = x.numel()
        y = torch.zeros((), device=x.device)
        energy[(triton.cdiv(total, 8192),)](x, y, total, 1.0 / total, BLOCK=8192)
        return y
