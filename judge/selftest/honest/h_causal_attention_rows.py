# title: causal attention of one query row a program, scores by a sum instead of a dot
# problem: samples/causal_attention
# audit: no
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def causal_row(q, k, v, out, n, scale, D: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    base = tl.program_id(1) * n * D
    d = tl.arange(0, D)
    query = tl.load(q + base + row * D + d)
    cols = tl.arange(0, BLOCK)
    seen = cols <= row
    keys = tl.load(k + base + cols[:, None] * D + d[None, :], mask=seen[:, None], other=0.0)
    scores = tl.sum(keys * query[None, :], axis=1) * scale
    scores = tl.where(seen, scores, -float("inf"))
    p = tl.exp(scores - tl.max(scores, 0))
    p = p / tl.sum(p, 0)
    values = tl.load(v + base + cols[:, None] * D + d[None, :], mask=seen[:, None], other=0.0)
    tl.store(out + base + row * D + d, tl.sum(p[:, None] * values, axis=0))


class ModelNew(torch.nn.Module):
    def __init__(self, length):
        super().__init__()

    def forward(self, q, k, v):
        b, h, n, d = q.shape
        out = torch.empty_like(q)
        causal_row[(n, b * h)](q, k, v, out, n, d**-0.5, D=d, BLOCK=triton.next_power_of_2(n), num_warps=8)
        return out
