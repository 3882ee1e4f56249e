# title: every output element fetches its own input element
# problem: transpose
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def gather_transposed(x_ptr, s_ptr, y_ptr, total, C, stride_b, stride_c, stride_a, A, BLOCK: tl.constexpr):
    out = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = out < total
    c = out % C
    a = out // C % A
    b = out // (C * A)
    value = tl.load(x_ptr + b * stride_b + c * stride_c + a * stride_a, mask=mask)
    tl.store(y_ptr + out, value * tl.load(s_ptr + c, mask=mask), mask=mask)


class ModelNew(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(channels))

    def forward(self, x):
        batch, C, A = x.shape
        y = x.new_empty(batch, A, C)
        gather_transposed[(triton.cdiv(y.numel(), 1024),)](x, self.scale, y, y.numel(), C, *x.stride(), A, BLOCK=1024)
        return y
