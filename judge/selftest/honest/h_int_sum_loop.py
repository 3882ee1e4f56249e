# title: row sums of 32-bit integers, chunk by chunk, by a scan and an atomic addition
# problem: int_sum
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def add_rows(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + row.to(tl.int64) * n + at, mask=at < n, other=0)
    last = tl.where(tl.arange(0, BLOCK) == BLOCK - 1, tl.cumsum(values, 0), 0)
    tl.atomic_add(out + row, tl.sum(last, 0))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.zeros(rows, dtype=torch.int32, device=x.device)
        add_rows[(rows, triton.cdiv(n, 128))](x, out, n, BLOCK=128)
        return out
