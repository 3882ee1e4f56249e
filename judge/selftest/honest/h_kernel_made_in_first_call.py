# title: the kernel's configuration is chosen and kept at the first call of each shape
# problem: samples/absmax_scale
# expect: pass
import torch
import triton
import triton.language as tl

_GRIDS = {}


@triton.jit
def scale_rows(x, y, rows, n, R: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    c = tl.arange(0, BLOCK)[None, :]
    inside = (r < rows) & (c < n)
    v = tl.load(x + r * n + c, mask=inside, other=0.0)
    top = tl.max(tl.abs(v), axis=1)[:, None]
    tl.store(y + r * n + c, v / (top + 1e-6) * 127.0, mask=inside)


def plan(shape):
    """Grid and block for a shape: they depend on nothing else, so keeping them is no cheating."""
    if shape not in _GRIDS:
        rows, n = shape
        block = triton.next_power_of_2(n)
        per_program = max(1, 4096 // block)
        _GRIDS[shape] = ((triton.cdiv(rows, per_program),), per_program, block)
    return _GRIDS[shape]


class ModelNew(torch.nn.Module):
    def forward(self, x):
        grid, per_program, block = plan(tuple(x.shape))
        y = torch.empty_like(x)
        scale_rows[grid](x, y, *x.shape, R=per_program, BLOCK=block)
        return y
