# title: mean and spread of several planes a program, the mean taken first
# problem: mean_pool
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def moments(x, mean_ptr, std_ptr, planes, area, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, BLOCK)
    inside = (row < planes)[:, None] & (col < area)[None, :]
    v = tl.load(x + row[:, None] * area + col[None, :], mask=inside, other=0.0)
    mean = tl.sum(v, axis=1) / area
    d = tl.where(inside, v - mean[:, None], 0.0)
    tl.store(mean_ptr + row, mean, mask=row < planes)
    tl.store(std_ptr + row, tl.sqrt(tl.sum(d * d, axis=1) / (area - 1)), mask=row < planes)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        n, c, h, w = x.shape
        stats = {"mean": x.new_empty(n, c), "std": x.new_empty(n, c)}
        block = triton.next_power_of_2(h * w)
        rows = 4 if block <= 1024 else 1
        moments[(triton.cdiv(n * c, rows),)](
            x.contiguous(), stats["mean"], stats["std"], n * c, h * w, ROWS=rows, BLOCK=block
        )
        return stats
