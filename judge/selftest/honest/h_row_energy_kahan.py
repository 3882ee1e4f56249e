# title: row energies with Kahan's compensation per lane
# problem: samples/row_energy
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def energy_kahan(x_ptr, off_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    lost = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + lane
        d = tl.load(x_ptr + row * n + at, mask=at < n, other=0.0) - tl.load(off_ptr + at, mask=at < n, other=0.0)
        term = d * d - lost
        grown = total + term
        lost = (grown - total) - term
        total = grown
    tl.store(out_ptr + row, tl.sum(total, 0))


class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.offset = torch.nn.Parameter(torch.zeros(columns))

    def forward(self, x):
        rows, n = x.shape
        out = x.new_empty(rows)
        energy_kahan[(rows,)](x, self.offset, out, n, BLOCK=512)
        return out
