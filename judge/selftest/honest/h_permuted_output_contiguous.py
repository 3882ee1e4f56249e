# title: a contiguous result where the reference returns a view
# problem: permuted_output
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def split_heads(x, s, y, length, heads, WIDTH: tl.constexpr, BLOCK_L: tl.constexpr):
    batch = tl.program_id(0) // heads
    head = tl.program_id(0) % heads
    t = tl.program_id(1) * BLOCK_L + tl.arange(0, BLOCK_L)[:, None]
    d = tl.arange(0, WIDTH)[None, :]
    value = tl.load(x + (batch * length + t) * heads * WIDTH + head * WIDTH + d, mask=t < length, other=0.0)
    value *= tl.load(s + head * WIDTH + d)
    tl.store(y + (tl.program_id(0) * length + t) * WIDTH + d, value, mask=t < length)


class ModelNew(torch.nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.scale = torch.nn.Parameter(torch.ones(heads * width))

    def forward(self, x):
        batch, length, total = x.shape
        width = total // self.heads
        y = x.new_empty(batch, self.heads, length, width)
        split_heads[(batch * self.heads, triton.cdiv(length, 32))](
            x, self.scale, y, length, self.heads, WIDTH=width, BLOCK_L=32
        )
        return y
