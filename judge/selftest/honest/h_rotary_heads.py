# title: rotation of all heads of one position in a tile
# problem: rotary
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def rope_kernel(x_ptr, angle_ptr, y_ptr, length, heads, HALF: tl.constexpr, BLOCK_H: tl.constexpr):
    token = tl.program_id(0)
    position = token % length
    d = tl.arange(0, HALF)
    h = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    angle = tl.load(angle_ptr + position * HALF + d)
    cos, sin = tl.cos(angle)[None, :], tl.sin(angle)[None, :]
    at = (token * heads + h[:, None]) * (2 * HALF) + d[None, :]
    mask = h[:, None] < heads
    left = tl.load(x_ptr + at, mask=mask, other=0.0)
    right = tl.load(x_ptr + at + HALF, mask=mask, other=0.0)
    tl.store(y_ptr + at, left * cos - right * sin, mask=mask)
    tl.store(y_ptr + at + HALF, right * cos + left * sin, mask=mask)


class ModelNew(torch.nn.Module):
    def forward(self, x, angle):
        batch, length, heads, width = x.shape
        y = torch.empty_like(x)
        rope_kernel[(batch * length, triton.cdiv(heads, 4))](x, angle, y, length, heads, HALF=width // 2, BLOCK_H=4)
        return y
