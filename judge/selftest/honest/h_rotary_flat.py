# title: rotation over flat memory, the partner fetched by its offset
# problem: rotary
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def rotate(x, cos, sin, y, total, length, heads, width, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    half = width // 2
    d = at % width
    position = at // (width * heads) % length
    is_left = d < half
    partner = tl.where(is_left, at + half, at - half)
    table = position * half + tl.where(is_left, d, d - half)
    own = tl.load(x + at, mask=inside)
    other = tl.load(x + partner, mask=inside)
    c = tl.load(cos + table, mask=inside)
    s = tl.load(sin + table, mask=inside)
    tl.store(y + at, own * c + tl.where(is_left, -other, other) * s, mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x, angle):
        _, length, heads, width = x.shape
        y = torch.empty_like(x)
        total = x.numel()
        rotate[(triton.cdiv(total, 512),)](x, angle.cos(), angle.sin(), y, total, length, heads, width, BLOCK=512)
        return y
