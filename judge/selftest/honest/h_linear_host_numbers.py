# title: a linear layer whose constants and scale come from the host
# problem: linear
# expect: pass
#
# A constant table from NumPy, one number read back, scratch memory that is kept: no work is done with them unseen.
import numpy as np
import torch
import triton
import triton.language as tl

ZEROS = torch.from_numpy(np.zeros(4096, np.float32))


@triton.jit
def linear(x, w, b, extra, out, rows, inner, outer, scale, ROWS: tl.constexpr, OUTER: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * OUTER + tl.arange(0, OUTER)
    total = tl.zeros((ROWS, OUTER), tl.float32)
    for start in range(0, inner, K):
        k = start + tl.arange(0, K)
        left = tl.load(x + row[:, None] * inner + k, mask=(row < rows)[:, None] & (k < inner), other=0.0)
        right = tl.load(w + column * inner + k[:, None], mask=(column < outer) & (k < inner)[:, None], other=0.0)
        total += tl.dot(left / scale, right, input_precision="ieee")
    total = total * scale + tl.load(b + column, mask=column < outer) + tl.load(extra + column % 4096)
    tl.store(out + row[:, None] * outer + column, total, mask=(row < rows)[:, None] & (column < outer))


class ModelNew(torch.nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(outer, inner))
        self.bias = torch.nn.Parameter(torch.ones(outer))
        self.kept = {}

    def forward(self, x):
        rows, inner, outer = x.shape[0], x.shape[1], self.weight.shape[0]
        x = x.contiguous()
        scale = max(float(x.abs().max()), 1e-30)
        extra = self.kept.setdefault("extra", ZEROS.to(x.device))
        out = torch.empty(rows, outer, device=x.device)
        grid = (triton.cdiv(rows, 32), triton.cdiv(outer, 32))
        linear[grid](x, self.weight, self.bias, extra, out, rows, inner, outer, scale, ROWS=32, OUTER=32, K=32)
        return out
