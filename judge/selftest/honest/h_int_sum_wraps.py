# title: row sums of 32-bit integers in one block, which wrap around
# problem: int_sum
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def sum_rows(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    values = tl.load(x + row.to(tl.int64) * n + at, mask=at < n, other=0)
    tl.store(out + row, tl.sum(values, 0))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty(rows, dtype=torch.int32, device=x.device)
        sum_rows[(rows,)](x, out, n, BLOCK=triton.next_power_of_2(n))
        return out
