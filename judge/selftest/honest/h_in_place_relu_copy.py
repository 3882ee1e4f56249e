# title: shift and ReLU into a new tensor, then copied back over the input
# problem: in_place_relu
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def shift_relu(x_ptr, shift_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    m = offs < cols
    v = tl.load(x_ptr + row * cols + offs, mask=m, other=0.0) + tl.load(shift_ptr + offs, mask=m, other=0.0)
    tl.store(y_ptr + row * cols + offs, tl.where(v > 0.0, v, 0.0), mask=m)


class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.zeros(columns))

    def forward(self, x):
        y = torch.empty_like(x)
        shift_relu[(x.shape[0],)](x, self.shift, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        x.copy_(y)
        return x
