# title: a sum and a copy of a parameter's rows, both written by one kernel
# problem: table_rows
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def add_and_copy(x, table, out, used, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(table + at, mask=at < n)
    tl.store(out + at, tl.load(x + at, mask=at < n) + row, mask=at < n)
    tl.store(used + at, row, mask=at < n)


class ModelNew(torch.nn.Module):
    def __init__(self, rows, columns):
        super().__init__()
        self.table = torch.nn.Parameter(torch.empty(rows, columns))

    def forward(self, x):
        x = x.contiguous()
        out, used = torch.empty_like(x), torch.empty_like(x)
        add_and_copy[(triton.cdiv(x.numel(), 1024),)](x, self.table, out, used, x.numel(), BLOCK=1024)
        return out, used
