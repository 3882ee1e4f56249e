# title: classes counted by comparing with each class and summing
# problem: histogram
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def count_by_comparison(x_ptr, out_ptr, n, classes, BLOCK: tl.constexpr, PADDED: tl.constexpr):
    row = tl.program_id(0)
    labels = tl.arange(0, PADDED)
    total = tl.zeros((PADDED,), tl.int32)
    for start in range(0, n, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        values = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-1)
        total += tl.sum((values[:, None] == labels[None, :]).to(tl.int32), axis=0)
    tl.store(out_ptr + row * classes + labels, total.to(tl.int64), mask=labels < classes)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty(rows, 10, dtype=x.dtype, device=x.device)
        count_by_comparison[(rows,)](x, out, n, 10, BLOCK=512, PADDED=16)
        return out
