# title: row energies, two halves of each row summed apart
# problem: samples/row_energy
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def energy(x, offset, out, n, HALF: tl.constexpr):
    row = tl.program_id(0)
    left = tl.arange(0, HALF)
    right = HALF + left
    a = tl.load(x + row * n + left, mask=left < n, other=0.0) - tl.load(offset + left, mask=left < n, other=0.0)
    b = tl.load(x + row * n + right, mask=right < n, other=0.0) - tl.load(offset + right, mask=right < n, other=0.0)
    tl.store(out + row, tl.sum(a * a, axis=0) + tl.sum(b * b, axis=0))


class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.offset = torch.nn.Parameter(torch.empty(columns))

    def forward(self, x):
        out = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
        energy[(x.shape[0],)](x, self.offset, out, x.shape[1], HALF=triton.next_power_of_2(x.shape[1]) // 2)
        return out
