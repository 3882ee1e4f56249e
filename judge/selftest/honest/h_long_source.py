# title: a source of more than 128 KiB
# problem: samples/row_energy
# pad: 150000
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def energy_rows(x, offset, out, rows, n, R: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    acc = tl.zeros((R, BLOCK), tl.float32)
    for start in range(0, n, BLOCK):
        c = start + tl.arange(0, BLOCK)
        inside = (r < rows)[:, None] & (c < n)[None, :]
        d = tl.load(x + r[:, None] * n + c[None, :], mask=inside, other=0.0)
        d -= tl.load(offset + c[None, :], mask=inside, other=0.0)
        acc += d * d
    tl.store(out + r, tl.sum(acc, axis=1), mask=r < rows)


class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.offset = torch.nn.Parameter(torch.zeros(columns))

    def forward(self, x):
        rows, n = x.shape
        out = torch.empty(rows, dtype=x.dtype, device=x.device)
        energy_rows[(triton.cdiv(rows, 8),)](x, self.offset, out, rows, n, R=8, BLOCK=256)
        return out
