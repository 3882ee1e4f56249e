# title: shift and ReLU written back into the input, as the reference does
# problem: in_place_relu
# quick: yes
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def shift_relu_(x, shift, total, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    v = tl.load(x + at, mask=inside) + tl.load(shift + at % columns, mask=inside)
    tl.store(x + at, tl.maximum(v, 0.0), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.shift = torch.nn.Parameter(torch.empty(columns))

    def forward(self, x):
        shift_relu_[(triton.cdiv(x.numel(), 1024),)](x, self.shift, x.numel(), x.shape[-1], BLOCK=1024)
        return x
