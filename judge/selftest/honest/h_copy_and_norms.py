# title: a copy and row lengths in one sweep
# problem: copy_and_norms
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def copy_and_norm(x, y, norm, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + at, mask=at < n, other=0.0)
        tl.store(y + row * n + at, v, mask=at < n)
        acc += v * v
    tl.store(norm + row, tl.sqrt(tl.sum(acc, 0)))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, n = x.shape
        y = torch.empty_like(x)
        norm = x.new_empty(rows)
        copy_and_norm[(rows,)](x, y, norm, n, BLOCK=128)
        return y, norm
