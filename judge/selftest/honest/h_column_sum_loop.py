# title: column sums, each program walks down its columns
# problem: column_sum
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def column_sum(x, w, out, rows, cols, BR: tl.constexpr, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    acc = tl.zeros((BR, BC), tl.float32)
    for r0 in range(0, rows, BR):
        r = r0 + tl.arange(0, BR)
        v = tl.load(x + r[:, None] * cols + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < cols), other=0.0)
        acc += v * tl.load(w + r, mask=r < rows, other=0.0)[:, None]
    tl.store(out + c, tl.sum(acc, axis=0), mask=c < cols)


class ModelNew(torch.nn.Module):
    def forward(self, x, weight):
        rows, cols = x.shape
        out = torch.empty(cols, device=x.device, dtype=x.dtype)
        column_sum[(triton.cdiv(cols, 32),)](x, weight, out, rows, cols, BR=32, BC=32)
        return out
