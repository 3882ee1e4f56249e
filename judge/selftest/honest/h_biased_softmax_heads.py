# title: softmax of scores with a bias shared by the batch
# problem: samples/biased_score_softmax
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def biased_softmax(s_ptr, b_ptr, o_ptr, length, heads, scale, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0) * ROWS
    plane = tl.program_id(1)
    rows = first + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    mask = (rows < length)[:, None] & (cols < length)[None, :]
    at = rows[:, None] * length + cols[None, :]
    area = length * length
    z = tl.load(s_ptr + plane * area + at, mask=mask, other=0.0) * scale
    z += tl.load(b_ptr + (plane % heads) * area + at, mask=mask, other=0.0)
    z = tl.where((cols < length)[None, :], z, -float("inf"))
    e = tl.exp(z - tl.max(z, 1)[:, None])
    tl.store(o_ptr + plane * area + at, e / tl.sum(e, 1)[:, None], mask=mask)


class ModelNew(torch.nn.Module):
    def __init__(self, heads, length, scale):
        super().__init__()
        self.scale = scale
        self.bias = torch.nn.Parameter(torch.empty(heads, length, length))

    def forward(self, scores):
        batch, heads, length, _ = scores.shape
        out = torch.empty_like(scores)
        block = triton.next_power_of_2(length)
        rows = max(1, 2048 // block)
        biased_softmax[(triton.cdiv(length, rows), batch * heads)](
            scores, self.bias, out, length, heads, self.scale, ROWS=rows, BLOCK=block
        )
        return out
