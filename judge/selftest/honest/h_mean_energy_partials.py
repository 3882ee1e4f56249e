# title: mean square over millions of numbers, by partial sums
# problem: mean_energy
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def squares(x, part, total, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < total, other=0.0)
    tl.store(part + tl.program_id(0), tl.sum(value * value))


@triton.jit
def mean(part, y, blocks, total, BLOCK: tl.constexpr):
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, blocks, BLOCK):
        at = start + tl.arange(0, BLOCK)
        acc += tl.load(part + at, mask=at < blocks, other=0.0)
    tl.store(y, tl.sum(acc) / total)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        x = x.contiguous()
        total = x.numel()
        blocks = triton.cdiv(total, 16384)
        part = torch.empty(blocks, device=x.device)
        y = torch.empty((), device=x.device)
        squares[(blocks,)](x, part, total, BLOCK=16384)
        mean[(1,)](part, y, blocks, total, BLOCK=1024)
        return y
