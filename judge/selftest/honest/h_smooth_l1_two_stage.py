# title: loss reduced in two stages with a scratch buffer
# problem: smooth_l1
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def partial_loss(x, t, parts, n, beta, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.abs(tl.load(x + at, mask=at < n, other=0.0) - tl.load(t + at, mask=at < n, other=0.0))
    loss = tl.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)
    tl.store(parts + tl.program_id(0), tl.sum(loss, 0))


@triton.jit
def total_loss(parts, out, count, n, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, count, BLOCK):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(parts + at, mask=at < count, other=0.0)
    tl.store(out, tl.sum(acc, 0) / n)


class ModelNew(torch.nn.Module):
    def forward(self, x, target):
        n = x.numel()
        count = triton.cdiv(n, 1024)
        parts = torch.empty(count, device=x.device, dtype=torch.float32)
        out = torch.empty((), device=x.device, dtype=x.dtype)
        partial_loss[(count,)](x, target, parts, n, 0.7, BLOCK=1024)
        total_loss[(1,)](parts, out, count, n, BLOCK=1024)
        return out
