# title: softmax in base two with the factor folded in
# problem: samples/row_softmax
# expect: pass
import torch
import triton
import triton.language as tl

LOG2_E = 1.4426950408889634


@triton.jit
def _softmax_exp2(x, y, stride, n_cols, scale, BLOCK_N: tl.constexpr):
    # exp(v) == exp2(v * log2(e)): the hardware has exp2 only
    pid = tl.program_id(axis=0)
    cols = tl.arange(0, BLOCK_N)
    valid = cols < n_cols
    v = tl.load(x + pid * stride + cols, mask=valid, other=float("-inf"))
    top = tl.max(v, axis=0)
    p = tl.exp2((v - top) * scale)
    total = tl.sum(p, axis=0)
    tl.store(y + pid * stride + cols, p * (1.0 / total), mask=valid)


class ModelNew(torch.nn.Module):
    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.scale = LOG2_E / temperature

    def forward(self, x):
        out = torch.empty_like(x)
        _softmax_exp2[(x.size(0),)](
            x, out, x.stride(0), x.size(1), self.scale, BLOCK_N=triton.next_power_of_2(x.size(1)), num_warps=4
        )
        return out
