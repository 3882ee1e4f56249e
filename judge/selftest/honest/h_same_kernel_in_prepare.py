# title: one kernel packs the table in prepare() and adds rows in forward
# problem: table_rows
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def add(a, b, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(a + at, mask=at < n) + tl.load(b + at, mask=at < n), mask=at < n)


def added(a, b):
    out = torch.empty_like(a)
    add[(triton.cdiv(a.numel(), 1024),)](a, b, out, a.numel(), BLOCK=1024)
    return out


class ModelNew(torch.nn.Module):
    def __init__(self, rows, columns):
        super().__init__()
        self.table = torch.nn.Parameter(torch.empty(rows, columns))
        self.packed = None

    def prepare(self):
        self.packed = added(self.table.detach(), torch.zeros_like(self.table))

    def forward(self, x):
        x = x.contiguous()
        used = self.packed[: x.shape[0]].clone()
        return added(x, used), used
