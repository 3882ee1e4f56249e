# title: a linear layer whose kernel is launched by an operator of its own
# problem: linear
# policy: {"library": "refuse"}
# expect: pass
#
# As code does that torch.compile shall not look into.
import torch
import triton
import triton.language as tl


@triton.jit
def linear(x, w, b, out, rows, inner, outer, ROWS: tl.constexpr, OUTER: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * OUTER + tl.arange(0, OUTER)
    total = tl.zeros((ROWS, OUTER), tl.float32)
    for start in range(0, inner, K):
        k = start + tl.arange(0, K)
        left = tl.load(x + row[:, None] * inner + k, mask=(row < rows)[:, None] & (k < inner), other=0.0)
        right = tl.load(w + column * inner + k[:, None], mask=(column < outer) & (k < inner)[:, None], other=0.0)
        total += tl.dot(left, right, input_precision="ieee")
    total += tl.load(b + column, mask=column < outer)
    tl.store(out + row[:, None] * outer + column, total, mask=(row < rows)[:, None] & (column < outer))


@torch.library.custom_op("added::linear", mutates_args=())
def added(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    (rows, inner), outer = x.shape, weight.shape[0]
    out = torch.empty(rows, outer, device=x.device, dtype=x.dtype)
    grid = (triton.cdiv(rows, 32), triton.cdiv(outer, 32))
    linear[grid](x, weight, bias, out, rows, inner, outer, ROWS=32, OUTER=32, K=32)
    return out


class ModelNew(torch.nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(outer, inner))
        self.bias = torch.nn.Parameter(torch.ones(outer))

    def forward(self, x):
        return added(x, self.weight, self.bias)
